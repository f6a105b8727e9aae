// Sequences over a table of matrices: rows are grouped by token, forward, backward, and as a whole training step.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "products.hpp"
#include "scale.hpp"

namespace {

// rows of one time step in the order of their tokens
struct Groups {
    std::vector<long> order, begin;
    Groups(long V, long B) : order(B), begin(V + 1) {}
    void sort(const int64_t* tokens, long V, long B) {
        std::fill(begin.begin(), begin.end(), 0);
        for (long r = 0; r < B; ++r) ++begin[tokens[r] + 1];
        for (long v = 0; v < V; ++v) begin[v + 1] += begin[v];
        std::vector<long> next(begin.begin(), begin.end() - 1);
        for (long r = 0; r < B; ++r) order[next[tokens[r]]++] = r;
    }
};

// a table of matrices, packed where each is used by enough rows for that to pay
template <class T> struct Table {
    const T* matrices;
    long V, H;
    bool packs, transposed;
    std::vector<T> packed;

    Table(const T* matrices, long V, long H, bool transposed, bool packs)
        : matrices(matrices), V(V), H(H), packs(packs), transposed(transposed) {
        if (!packs) return;
        const long each = panels<T>(H) * Simd<T>::width * H;
        packed.resize(V * each);
        std::vector<const T*> rows(H);
        for (long v = 0; v < V; ++v) {
            const T* A = matrices + v * H * H;
            if (transposed) {
                for (long i = 0; i < H; ++i) rows[i] = A + i * H;
                pack_rows(rows.data(), H, H, packed.data() + v * each);
            } else {
                pack_transposed(A, H, packed.data() + v * each);
            }
        }
    }

    void multiply(long v, const T* const* rows, T* const* outs, long count) const {
        if (packs)
            multiply_packed(rows, outs, count, packed.data() + v * panels<T>(H) * Simd<T>::width * H, H, H, false);
        else if (transposed)
            multiply_direct_transposed(rows, outs, count, matrices + v * H * H, H);
        else
            multiply_direct(rows, outs, count, matrices + v * H * H, H);
    }
};

// Moves rows through their tokens from one time to another, in no common step: a row waits for no other. The matrix
// that most rows wait for comes next, so that each is read for as many rows as possible; for few rows per token.
// `from(t, r)` and `to(t, r)` are where a row is read and written, `after(t, r)` is called once that is done.
template <class T, class From, class To, class After>
void move_freely(const Table<T>& table, const int64_t* tokens, long B, long begin, long end, bool backwards, From from,
                 To to, After after) {
    std::vector<std::vector<long>> waiting(table.V);
    std::vector<long> time(B, backwards ? end - 1 : begin), taken;
    std::vector<const T*> rows;
    std::vector<T*> outs;
    for (long r = 0; r < B && begin < end; ++r) waiting[tokens[time[r] * B + r]].push_back(r);
    for (long left = begin < end ? B * (end - begin) : 0; left > 0;) {
        long v = 0;
        for (long u = 1; u < table.V; ++u)
            if (waiting[u].size() > waiting[v].size()) v = u;
        taken.clear();
        taken.swap(waiting[v]);
        rows.clear(), outs.clear();
        for (long r : taken) rows.push_back(from(time[r], r)), outs.push_back(to(time[r], r));
        table.multiply(v, rows.data(), outs.data(), static_cast<long>(taken.size()));
        left -= static_cast<long>(taken.size());
        for (long r : taken) {
            after(time[r], r);
            time[r] += backwards ? -1 : 1;
            if (time[r] >= begin && time[r] < end) waiting[tokens[time[r] * B + r]].push_back(r);
        }
    }
}

// not by the number of steps: padding must not change a result
inline bool pays(long V, long B) { return B >= 2 * V; }

template <class T>
void step_by_token(const Table<T>& table, Groups& groups, const int64_t* tokens, long B, const T* from, T* to,
                   std::vector<const T*>& rows, std::vector<T*>& outs) {
    groups.sort(tokens, table.V, B);
    for (long r = 0; r < B; ++r) {
        rows[r] = from + groups.order[r] * table.H;
        outs[r] = to + groups.order[r] * table.H;
    }
    for (long v = 0; v < table.V; ++v) {
        const long first = groups.begin[v], count = groups.begin[v + 1] - first;
        if (count) table.multiply(v, rows.data() + first, outs.data() + first, count);
    }
}

// states[0] is given; states[t + 1] = A[tokens[t]] states[t], divided by a power of two every `every` steps
template <class T>
void full_forward(const T* matrices, const int64_t* tokens, T* states, T* scales, long V, long H, long B, long time,
                  long every) {
    const Table<T> table(matrices, V, H, false, pays(V, B));
    auto to = [&](long t, long r) { return states + ((t + 1) * B + r) * H; };
    auto rescale = [&](long t, long r) {
        if (!every || (t + 1) % every) return;
        const T scale = scales[t * B + r] = 1 / power_above(to(t, r), H);
        for (long i = 0; i < H; ++i) to(t, r)[i] *= scale;
    };
    if (!table.packs)
        return move_freely(table, tokens, B, 0, time, false, [&](long t, long r) { return to(t - 1, r); }, to, rescale);
    Groups groups(V, B);
    std::vector<const T*> rows(B);
    std::vector<T*> outs(B);
    for (long t = 0; t < time; ++t) {
        step_by_token(table, groups, tokens + t * B, B, to(t - 1, 0), to(t, 0), rows, outs);
        for (long r = 0; r < B; ++r) rescale(t, r);
    }
}

// the last state only; its scale goes into a logarithm
template <class T>
void full_resume(const T* matrices, const int64_t* tokens, T* h, double* log_scale, long V, long H, long B, long time,
                 long every) {
    const Table<T> table(matrices, V, H, false, pays(V, B));
    Groups groups(V, B);
    std::vector<const T*> rows(B);
    std::vector<T*> outs(B);
    std::vector<T> other(B * H);
    T *from = h, *to = other.data();
    for (long t = 0; t < time; ++t) {
        step_by_token(table, groups, tokens + t * B, B, from, to, rows, outs);
        if ((t + 1) % every == 0)
            for (long r = 0; r < B; ++r) {
                const T most = power_above(to + r * H, H);
                log_scale[r] += std::log(static_cast<double>(most));
                for (long i = 0; i < H; ++i) to[r * H + i] /= most;
            }
        std::swap(from, to);
    }
    if (from != h) std::memcpy(h, from, sizeof(T) * B * H);
}

// adds, for each token v, sum over its events of g h^T to gradient[v], which holds a sum already if `written` is set;
// events are (time, row) of one stretch of time
template <class T>
void add_outer_products(const int64_t* tokens, const T* g, const T* h, T* gradient, std::vector<char>& written, long V,
                        long H, long count) {
    std::vector<long> begin(V + 1), order(count);
    for (long e = 0; e < count; ++e) ++begin[tokens[e] + 1];
    for (long v = 0; v < V; ++v) begin[v + 1] += begin[v];
    std::vector<long> next(begin.begin(), begin.end() - 1);
    for (long e = 0; e < count; ++e) order[next[tokens[e]]++] = e;
    constexpr int width = Simd<T>::width;
    std::vector<T> right(panels<T>(H) * width * DEPTH);
    std::vector<const T*> left(DEPTH), sources(DEPTH);
    for (long v = 0; v < V; ++v)
        for (long first = begin[v]; first < begin[v + 1]; first += DEPTH) {
            const long depth = std::min(DEPTH, begin[v + 1] - first);
            for (long k = 0; k < depth; ++k) left[k] = g + order[first + k] * H, sources[k] = h + order[first + k] * H;
            pack_rows(sources.data(), depth, H, right.data());
            // few rows of the result at a time: it is written from left to right, and what is multiplied stays near
            const bool add = written[v] != 0;
            for (long i = 0; i < H;) {
                const int some = next_tile(H - i);
                const T* const* from = left.data();
                for (long p = 0; p < panels<T>(H); ++p) {
                    const T* panel = right.data() + p * depth * width;
                    const long live = std::min<long>(width, H - p * width);
                    T* outs[TILE_ROWS];
                    for (int r = 0; r < some; ++r) outs[r] = gradient + (v * H + i + r) * H + p * width;
                    tile<T>(some, [from, i](int r, long k) { return from[k][i + r]; }, panel, outs, depth, live, add);
                }
                i += some;
            }
            written[v] = 1;
        }
}

// grad reaches all states, as [time, row], or, with lengths, only the last state of each row, as [row]. Gradients of
// the table are products over a stretch of time that fits into the cache.
template <class T>
void full_backward(const T* matrices, const int64_t* tokens, const T* states, const T* scales, const T* grad,
                   const int64_t* lengths, T* first, T* gradient, long V, long H, long B, long time, long every) {
    if (!time || !B) {
        std::memset(first, 0, sizeof(T) * B * H);
        std::memset(gradient, 0, sizeof(T) * V * H * H);
        return;
    }
    const Table<T> table(matrices, V, H, true, pays(V, B));
    const long fits = CACHE / static_cast<long>(B * H * sizeof(T)), enough = DEPTH * V / (2 * B);
    const long stretch = std::max({1L, fits, enough});
    Groups groups(V, B);
    std::vector<const T*> rows(B);
    std::vector<T*> outs(B);
    std::vector<T> running(B * H), arriving(std::min(stretch, time) * B * H);
    std::vector<char> written(V);
    // stretches are counted from the beginning: padding at the end must not change a result
    for (long end = time, begin; end > 0; end = begin) {
        begin = (end - 1) / stretch * stretch;
        // completes the gradient that reaches a row's state at a time, and returns it
        auto gather = [&](long t, long r) {
            T* here = arriving.data() + ((t - begin) * B + r) * H;
            std::memcpy(here, running.data() + r * H, sizeof(T) * H);
            if (!lengths || lengths[r] - 1 == t) {
                const T* source = grad + (lengths ? r : t * B + r) * H;
                for (long i = 0; i < H; ++i) here[i] += source[i];
            }
            if (every && (t + 1) % every == 0)
                for (long i = 0; i < H; ++i) here[i] *= scales[t * B + r];
            return here;
        };
        auto to = [&](long t, long r) { return (t ? running.data() : first) + r * H; };
        if (!table.packs)
            move_freely(table, tokens, B, begin, end, true, gather, to, [](long, long) {});
        else
            for (long t = end - 1; t >= begin; --t) {
                for (long r = 0; r < B; ++r) gather(t, r);
                const T* here = arriving.data() + (t - begin) * B * H;
                step_by_token(table, groups, tokens + t * B, B, here, to(t, 0), rows, outs);
            }
        add_outer_products(tokens + begin * B, arriving.data(), states + begin * B * H, gradient, written, V, H,
                           (end - begin) * B);
    }
    for (long v = 0; v < V; ++v)
        if (!written[v]) std::memset(gradient + v * H * H, 0, sizeof(T) * H * H);
}

// The mean loss of logits U h, or U h / |h|, and its gradients: `to_state` for each row, `to_readout` in all. The loss of
// a row is the cross-entropy of its answer, or the squared distance of its logits from the one-hot vector of its answer.
template <class T>
T read_out(const T* const* states, const T* readout, const int64_t* answers, T* to_state, T* to_readout, long B, long H,
           long C, bool direction, bool squared) {
    std::vector<T> unit(H), logits(C);
    std::memset(to_readout, 0, sizeof(T) * C * H);
    T total = 0;
    for (long r = 0; r < B; ++r) {
        T norm = 1;
        if (direction) {
            // the largest entry first: the square of a large or small one would not be there
            const T most = power_above(states[r], H);
            T power = 0;
            for (long i = 0; i < H; ++i) unit[i] = states[r][i] / most, power += unit[i] * unit[i];
            const T length = power > 0 ? std::sqrt(power) : T(1);
            for (long i = 0; i < H; ++i) unit[i] /= length;
            norm = length * most;
        } else {
            std::memcpy(unit.data(), states[r], sizeof(T) * H);
        }
        T top = -INFINITY, sum = 0;
        for (long c = 0; c < C; ++c) {
            T dot = 0;
            for (long i = 0; i < H; ++i) dot += readout[c * H + i] * unit[i];
            logits[c] = dot;
            top = std::max(top, dot);
        }
        if (squared) {
            for (long c = 0; c < C; ++c) logits[c] -= (c == answers[r]), total += logits[c] * logits[c];
        } else {
            for (long c = 0; c < C; ++c) sum += std::exp(logits[c] - top);
            total += std::log(sum) + top - logits[answers[r]];
        }
        T* __restrict__ to = to_state + r * H;
        std::memset(to, 0, sizeof(T) * H);
        for (long c = 0; c < C; ++c) {
            const T g = (squared ? 2 * logits[c] : std::exp(logits[c] - top) / sum - (c == answers[r])) / B;
            const T* row = readout + c * H;
            T* __restrict__ into = to_readout + c * H;
            for (long i = 0; i < H; ++i) to[i] += g * row[i], into[i] += g * unit[i];
        }
        if (direction) {
            T along = 0;
            for (long i = 0; i < H; ++i) along += to[i] * unit[i];
            for (long i = 0; i < H; ++i) to[i] = (to[i] - along * unit[i]) / norm;
        }
    }
    return total / B;
}

// Loss and gradients of a whole training step of a table of matrices: run sequences from a first state to their ends,
// read the ends out, and go back. Buffers are reused for the next member, while they are in the cache.
template <class T>
void full_train(const T* matrices, const T* initial, const T* readout, const int64_t* tokens, const int64_t* lengths,
                const int64_t* answers, T* losses, T* to_matrices, T* to_initial, T* to_readout, long M, long V, long H,
                long C, long B, long time, long every, long direction, long squared) {
    std::vector<T> states((time + 1) * B * H), scales(time * B), to_state(B * H), first(B * H);
    std::vector<const T*> ends(B);
    for (long m = 0; m < M; ++m) {
        const T *table = matrices + m * V * H * H, *start = initial + m * H;
        const int64_t *own = tokens + m * time * B, *length = lengths + m * B;
        for (long r = 0; r < B; ++r) std::memcpy(states.data() + r * H, start, sizeof(T) * H);
        full_forward(table, own, states.data(), scales.data(), V, H, B, time, every);
        for (long r = 0; r < B; ++r) ends[r] = states.data() + (length[r] * B + r) * H;
        losses[m] = read_out(ends.data(), readout + m * C * H, answers + m * B, to_state.data(), to_readout + m * C * H,
                             B, H, C, direction != 0, squared != 0);
        full_backward(table, own, states.data(), scales.data(), to_state.data(), length, first.data(),
                      to_matrices + m * V * H * H, V, H, B, time, every);
        T* __restrict__ into = to_initial + m * H;
        std::memset(into, 0, sizeof(T) * H);
        for (long r = 0; r < B; ++r)
            for (long i = 0; i < H; ++i) into[i] += first[r * H + i];
    }
}

}  // namespace

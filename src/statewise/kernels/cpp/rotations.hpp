// Rotations: pairs rotated by sums of angles.

#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace {

constexpr double PI = 3.14159265358979323846;
// above this, turns of 2 pi are not subtracted by a product, which would round
constexpr double FAR = 1e5;

// sine and cosine of an angle from -pi to pi
inline void cos_sin(double angle, double& c, double& s) { c = std::cos(angle), s = std::sin(angle); }

inline void cos_sin(double angle, float& c, float& s) {
    // quarter turns are subtracted first; the rest is within pi / 4, where short polynomials are exact to rounding
    const double quarter = std::nearbyint(angle * (2 / PI));
    const float r = static_cast<float>(angle - quarter * (PI / 2)), z = r * r;
    const float sine = r + r * z * (-1.6666667163e-1f + z * (8.3333337680e-3f + z * (-1.9841270114e-4f + z * 2.7557314297e-6f)));
    const float cosine = 1 + z * (-0.5f + z * (4.1666667908e-2f + z * (-1.3888889225e-3f + z * 2.4801587642e-5f)));
    const int q = static_cast<int>(quarter);
    const float a = q & 1 ? sine : cosine, b = q & 1 ? cosine : sine;
    c = (q + 1) & 2 ? -a : a;
    s = q & 2 ? -b : b;
}

// an angle within one turn; sine and cosine take turns off a large one without rounding
inline double within_one_turn(double angle) {
    if (std::abs(angle) > FAR) return std::atan2(std::sin(angle), std::cos(angle));
    return angle - 2 * PI * std::nearbyint(angle * (0.5 / PI));
}

// pairs rotated by the sum of all angles so far, which is kept in double and within one turn
template <class T> void rotations_forward(const T* angles, const T* h0, T* out, long B, long time, long N) {
    std::vector<double> sums(N);
    std::vector<T> cosines(N), sines(N);
    for (long r = 0; r < B; ++r) {
        std::fill(sums.begin(), sums.end(), 0.0);
        const T* h = h0 + r * 2 * N;
        for (long t = 0; t < time; ++t) {
            const T* angle = angles + (r * time + t) * N;
            double* __restrict__ sum = sums.data();
            T *__restrict__ c = cosines.data(), *__restrict__ s = sines.data();
            double most = 0;
            for (long n = 0; n < N; ++n) most = std::max(most, std::abs(static_cast<double>(angle[n])));
            if (most > FAR)
                for (long n = 0; n < N; ++n) sum[n] = within_one_turn(sum[n] + within_one_turn(angle[n]));
            else
                for (long n = 0; n < N; ++n) {
                    const double total = sum[n] + angle[n];
                    sum[n] = total - 2 * PI * std::nearbyint(total * (0.5 / PI));
                }
            for (long n = 0; n < N; ++n) cos_sin(sum[n], c[n], s[n]);
            T* __restrict__ to = out + (r * time + t) * 2 * N;
            for (long n = 0; n < N; ++n) {
                to[2 * n] = c[n] * h[2 * n] - s[n] * h[2 * n + 1];
                to[2 * n + 1] = s[n] * h[2 * n] + c[n] * h[2 * n + 1];
            }
        }
    }
}

// 2^-e for the power of two e of a pair's largest entry, within the range of normal numbers
template <class T> T inverse_power(T most) {
    int exponent;
    std::frexp(most, &exponent);
    return std::ldexp(T(1), std::clamp(-exponent, std::numeric_limits<T>::min_exponent - 1,
                                       std::numeric_limits<T>::max_exponent - 1));
}

// with pairs as complex numbers, out = e^(i sum) h0: d(sum) = Im(conj(out) g), and dh0 = h0 / |h0|^2 sum conj(out) g
template <class T>
void rotations_backward(const T* angles, const T* h0, const T* out, const T* grad, T* gradient, T* first, long B,
                        long time, long N) {
    std::vector<T> running(N), real(N), scales(N);
    for (long r = 0; r < B; ++r) {
        T *__restrict__ along = running.data(), *__restrict__ across = real.data(), *__restrict__ scale = scales.data();
        std::fill(running.begin(), running.end(), T(0));
        std::fill(real.begin(), real.end(), T(0));
        // a product of two small numbers would not be there: states are brought to the size of one, which rounds nothing
        for (long n = 0; n < N; ++n) {
            const T* h = h0 + (r * N + n) * 2;
            const T most = std::max(std::abs(h[0]), std::abs(h[1]));
            scale[n] = most > 0 && std::isfinite(most) ? inverse_power(most) : T(1);
        }
        for (long t = time - 1; t >= 0; --t) {
            const long at = (r * time + t) * N;
            const T *o = out + 2 * at, *g = grad + 2 * at;
            T* __restrict__ d = gradient + at;
            for (long n = 0; n < N; ++n) {
                const T x = o[2 * n] * scale[n], y = o[2 * n + 1] * scale[n];
                along[n] += x * g[2 * n + 1] - y * g[2 * n];
                across[n] += x * g[2 * n] + y * g[2 * n + 1];
                d[n] = along[n] / scale[n];
            }
        }
        for (long n = 0; n < N; ++n) {
            T a = h0[(r * N + n) * 2], b = h0[(r * N + n) * 2 + 1], x = 0, y = 0;
            if ((std::abs(a) > 0 || std::abs(b) > 0) && std::isfinite(a) && std::isfinite(b)) {
                a *= scale[n], b *= scale[n];
                const T power = a * a + b * b, s = across[n] / power, t = along[n] / power;
                x = s * a - t * b;
                y = s * b + t * a;
            } else {
                double sum = 0;
                for (long t = 0; t < time; ++t) {
                    const long at = (r * time + t) * N + n;
                    sum = within_one_turn(sum + within_one_turn(angles[at]));
                    const double c = std::cos(sum), s = std::sin(sum);
                    x += T(c * grad[2 * at] + s * grad[2 * at + 1]);
                    y += T(c * grad[2 * at + 1] - s * grad[2 * at]);
                }
            }
            first[(r * N + n) * 2] = x, first[(r * N + n) * 2 + 1] = y;
        }
    }
}

}  // namespace

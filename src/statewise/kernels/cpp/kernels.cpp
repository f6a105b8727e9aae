// h_t = A(x_t) h_{t-1} over time, forward and backward, for float and double.
// Plain C interfaces, no dependency: compiled once for this machine and called through ctypes (see native.py).

#include "adam.hpp"
#include "events.hpp"
#include "full.hpp"
#include "rotations.hpp"
#include "small_blocks.hpp"

#define EXPORT(T, NAME)                                                                                             \
    extern "C" void full_forward_##NAME(const T* m, const int64_t* k, T* s, T* c, long M, long V, long H, long B,   \
                                        long t, long e) {                                                           \
        for (long i = 0; i < M; ++i)                                                                                \
            full_forward<T>(m + i * V * H * H, k + i * t * B, s + i * (t + 1) * B * H, c + (e ? i * t * B : 0),     \
                            V, H, B, t, e);                                                                         \
    }                                                                                                               \
    extern "C" void full_resume_##NAME(const T* m, const int64_t* k, T* h, double* l, long V, long H, long B,       \
                                       long t, long e) {                                                            \
        full_resume<T>(m, k, h, l, V, H, B, t, e);                                                                  \
    }                                                                                                               \
    extern "C" void full_backward_##NAME(const T* m, const int64_t* k, const T* s, const T* c, const T* a,          \
                                         const int64_t* l, T* f, T* g, long M, long V, long H, long B, long t,      \
                                         long e) {                                                                  \
        for (long i = 0; i < M; ++i)                                                                                \
            full_backward<T>(m + i * V * H * H, k + i * t * B, s + i * (t + 1) * B * H, c + (e ? i * t * B : 0),    \
                             a + i * (l ? 1 : t) * B * H, l ? l + i * B : l, f + i * B * H, g + i * V * H * H, V,   \
                             H, B, t, e);                                                                           \
    }                                                                                                               \
    extern "C" void full_train_##NAME(const T* m, const T* h, const T* u, const int64_t* k, const int64_t* l,       \
                                      const int64_t* a, T* o, T* dm, T* dh, T* du, long M, long V, long H,          \
                                      long C, long B, long t, long e, long n, long q) {                             \
        full_train<T>(m, h, u, k, l, a, o, dm, dh, du, M, V, H, C, B, t, e, n, q);                                  \
    }                                                                                                               \
    extern "C" void small_blocks_forward_##NAME(const T* a, const int64_t* k, const T* h, T* o, T* c, long B,         \
                                                long t, long N, long b, long e) {                                   \
        small_blocks_forward_any<T>(a, k, h, o, c, B, t, N, b, e);                                                  \
    }                                                                                                               \
    extern "C" void small_blocks_backward_##NAME(const T* a, const int64_t* k, const T* h, const T* o, const T* c,  \
                                                 const T* g, T* d, T* f, long B, long t, long N, long b, long e) {  \
        small_blocks_backward_any<T>(a, k, h, o, c, g, d, f, B, t, N, b, e);                                        \
    }                                                                                                               \
    extern "C" void events_forward_##NAME(const T* a, const T* o, const int64_t* l, const T* h, T* s, T* f, long B,  \
                                          long t, long p, long c, long N, long b) {                                 \
        events_forward<T>(a, o, l, h, s, f, B, t, p, c, N, b);                                                      \
    }                                                                                                               \
    extern "C" void events_backward_##NAME(T* a, const int64_t* l, const T* h, const T* s, const T* f, const T* g,  \
                                           T* r, T* o, long B, long t, long p, long c, long N, long b) {            \
        events_backward<T>(a, l, h, s, f, g, r, o, B, t, p, c, N, b);                                               \
    }                                                                                                               \
    extern "C" void rotations_forward_##NAME(const T* a, const T* h, T* o, long B, long t, long N) {                \
        rotations_forward<T>(a, h, o, B, t, N);                                                                     \
    }                                                                                                               \
    extern "C" void rotations_backward_##NAME(const T* a, const T* h, const T* o, const T* g, T* d, T* f, long B,   \
                                              long t, long N) {                                                     \
        rotations_backward<T>(a, h, o, g, d, f, B, t, N);                                                           \
    }                                                                                                               \
    extern "C" void adam_##NAME(T* p, const T* g, T* m, T* v, long M, long n, const double* k, const double* r,     \
                                double b1, double b2, double s, double e) {                                         \
        adam<T>(p, g, m, v, M, n, k, r, b1, b2, s, e);                                                              \
    }

EXPORT(float, float)
EXPORT(double, double)

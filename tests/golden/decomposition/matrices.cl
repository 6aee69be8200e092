// inv of matrices of 4 x 4 numbers, 16 side by side in vectors.
typedef int index_t;

typedef float16 real_t;
typedef int16 whole_t;
typedef real_t num_t;
static inline num_t number(real_t a)
{
    return a;
}
static inline real_t re(num_t a)
{
    return a;
}
static inline num_t conjugate(num_t a)
{
    return a;
}
static inline num_t plus(num_t a, num_t b)
{
    return a + b;
}
static inline num_t minus(num_t a, num_t b)
{
    return a - b;
}
static inline num_t product(num_t a, num_t b)
{
    return a * b;
}
static inline num_t times(num_t a, real_t b)
{
    return a * b;
}
static inline num_t over(num_t a, real_t b)
{
    return a / b;
}
static inline num_t chosen(whole_t where, num_t a, num_t b)
{
    return where ? a : b;
}
static inline real_t magnitude(num_t a)
{
    return fabs(a);
}
static inline real_t square(num_t a)
{
    return a * a;
}
static inline real_t modulus(num_t a)
{
    return fabs(a);
}
static inline num_t quotient(num_t a, num_t b)
{
    return a / b;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void inv_4x4(
    __global const float *a_memory,
    __global float *x_memory,
    __global int *info_memory,
    const int count,
    const int tiles,
    const int per_group,
    const int k0,
    const int a_start,
    const int a_row,
    const int a_column,
    const int a_k0,
    const int x_start,
    const int x_row,
    const int x_column,
    const int x_k0,
    const int info_start,
    const int info_row,
    const int info_column,
    const int info_k0)
{
    __private num_t a[32];
    const index_t first = (index_t)get_group_id(0) * per_group, end = min(first + per_group, tiles);
    for (index_t tile = first; tile < end; ++tile) {
        index_t a_at[16], x_at[16], info_at[16];
        for (int l = 0; l < 16; ++l) {
            index_t rest = min(tile * 16 + l, count - 1);
            a_at[l] = a_start;
            x_at[l] = x_start;
            info_at[l] = info_start;
            {
                const index_t at = rest % k0;
                rest /= k0;
                a_at[l] += at * a_k0;
                x_at[l] += at * x_k0;
                info_at[l] += at * info_k0;
            }
        }
        whole_t info = 0;
        for (int i = 0; i < 4; ++i) {
            for (int j = 0; j < 4; ++j) {
                for (int l = 0; l < 16; ++l) {
                    const index_t at = a_at[l] + i * a_row + j * a_column;
                    ((__private float *)a)[((i * 8 + 0 + j) * 1 + 0) * 16 + l] = a_memory[at];
                }
            }
        }

        for (int i = 0; i < 4; ++i)
            for (int j = 0; j < 4; ++j)
                a[i * 8 + 4 + j] = number(i == j ? 1 : 0);

        for (int k = 0; k < 4; ++k) {
            real_t best = magnitude(a[k * 8 + k]);
            whole_t p = k;
            for (int i = k + 1; i < 4; ++i) {
                const real_t found = magnitude(a[i * 8 + k]);
                const whole_t more = found > best;
                best = more ? found : best;
                p = more ? (whole_t)i : p;
            }
            const whole_t none = best == 0;
            info = (info == 0) & none ? (whole_t)(k + 1) : info;

            if (any(p != k)) {
                for (int j = k; j < 8; ++j) {
                    const num_t top = a[k * 8 + j];
                    num_t found = top;
                    for (int i = k + 1; i < 4; ++i) {
                        const whole_t here = p == i;
                        const num_t one = a[i * 8 + j];
                        found = chosen(here, one, found);
                        a[i * 8 + j] = chosen(here, top, one);
                    }
                    a[k * 8 + j] = found;
                }
            }

            const num_t pivot = a[k * 8 + k];
            for (int i = k + 1; i < 4; ++i)
                a[i * 8 + k] = chosen(none, a[i * 8 + k], quotient(a[i * 8 + k], pivot));

            for (int i = k + 1; i < 4; ++i) {
                const num_t factor = a[i * 8 + k];
                for (int j = k + 1; j < 8; ++j)
                    a[i * 8 + j] = minus(a[i * 8 + j], product(factor, a[k * 8 + j]));
            }

        }

        for (int i = 3; i >= 0; --i) {
            const num_t pivot = a[i * 8 + i];
            for (int j = 4; j < 8; ++j)
                a[i * 8 + j] = quotient(a[i * 8 + j], pivot);
            for (int r = 0; r < i; ++r) {
                const num_t factor = a[r * 8 + i];
                for (int j = 4; j < 8; ++j)
                    a[r * 8 + j] = minus(a[r * 8 + j], product(factor, a[i * 8 + j]));
            }
        }

        for (int i = 0; i < 4; ++i) {
            for (int j = 0; j < 4; ++j) {
                for (int l = 0; l < 16; ++l) {
                    const index_t at = x_at[l] + i * x_row + j * x_column;
                    x_memory[at] = ((__private float *)a)[((i * 8 + 4 + j) * 1 + 0) * 16 + l];
                }
            }
        }

        {
            const whole_t value = info;
            for (int l = 0; l < 16; ++l)
                info_memory[info_at[l] + 0 * info_row] = (int)((const int *)&value)[l];
        }

    }
}

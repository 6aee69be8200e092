// eigh of matrices of 32 x 32 numbers, a work-group each.
typedef int index_t;

typedef float real_t;
typedef int whole_t;
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

__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void eigh_32x32(
    __global const float *a_memory,
    __global float *w_memory,
    __global float *v_memory,
    __global int *info_memory,
    const int count,
    const int tiles,
    const int per_group,
    const int k0,
    const int a_start,
    const int a_row,
    const int a_column,
    const int a_k0,
    const int w_start,
    const int w_row,
    const int w_column,
    const int w_k0,
    const int v_start,
    const int v_row,
    const int v_column,
    const int v_k0,
    const int info_start,
    const int info_row,
    const int info_column,
    const int info_k0)
{
    __local num_t a[1024];
    __local num_t v[1024];
    __local real_t values[32];
    const int item = (int)get_local_id(0);
    const index_t first = (index_t)get_group_id(0) * per_group, end = min(first + per_group, tiles);
    for (index_t tile = first; tile < end; ++tile) {
        index_t a_at[1], w_at[1], v_at[1], info_at[1];
        for (int l = 0; l < 1; ++l) {
            index_t rest = min(tile * 1 + l, count - 1);
            a_at[l] = a_start;
            w_at[l] = w_start;
            v_at[l] = v_start;
            info_at[l] = info_start;
            {
                const index_t at = rest % k0;
                rest /= k0;
                a_at[l] += at * a_k0;
                w_at[l] += at * w_k0;
                v_at[l] += at * v_k0;
                info_at[l] += at * info_k0;
            }
        }
        whole_t info = 0;
        for (int i = 0; i < 32; ++i) {
            for (int j = 0 + item; j < i + 1; j += 64) {
                for (int l = 0; l < 1; ++l) {
                    const index_t at = a_at[l] + i * a_row + j * a_column;
                    ((__local float *)a)[((i * 32 + 0 + j) * 1 + 0) * 1 + l] = a_memory[at];
                }
            }
        }

        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = 0; i < 32; ++i)
            for (int j = i + item; j < 32; j += 64)
                a[i * 32 + j] = i == j ? number(re(a[i * 32 + j])) : conjugate(a[j * 32 + i]);
        barrier(CLK_LOCAL_MEM_FENCE);
        real_t most = 0;
        for (int e = 0; e < 1024; ++e) {
            const real_t one = magnitude(a[e]);
            most = fmax(most, one);
            info = one - one == 0 ? info : (whole_t)1;
        }
        const real_t scale = most > 0 ? ldexp((real_t)1, clamp(-ilogb(most), -120, 120)) : (real_t)1;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int e = 0 + item; e < 1024; e += 64)
            a[e] = times(a[e], scale);
        barrier(CLK_LOCAL_MEM_FENCE);

        for (int i = 0; i < 32; ++i)
            for (int j = 0 + item; j < 32; j += 64)
                v[i * 32 + j] = number(i == j ? 1 : 0);

        whole_t moving = 1;
        for (int sweep = 0; sweep < 30 && moving != 0; ++sweep) {
            moving = 0;
            for (int p = 0; p < 31; ++p) {
                for (int q = p + 1; q < 32; ++q) {
                    const num_t away = a[p * 32 + q];
                    const real_t alpha = re(a[p * 32 + p]), gamma_ = re(a[q * 32 + q]), beta = modulus(away);
                    const whole_t turns = beta > 1.1920928955078125e-07f * 0.03f;
                    if (turns) {
                        moving = turns ? (whole_t)1 : moving;
                        const num_t e = chosen(turns, over(away, beta), number(1));
                        const real_t twice = (gamma_ - alpha) / (2 * beta), steep = fabs(twice);
                        const real_t flat = steep > 1e6f ? (0.5f) / steep : 1 / (steep + sqrt(twice * twice + 1));
                        const real_t t = turns ? copysign(flat, twice) : (real_t)0;
                        const real_t c = 1 / sqrt(t * t + 1), s = t * c;
                        const num_t ce = times(e, c), se = times(e, s);

                        barrier(CLK_LOCAL_MEM_FENCE);
                        for (int i = 0 + item; i < 32; i += 64) {
                            const num_t x = a[p * 32 + i], y = a[q * 32 + i];
                            const num_t x_turned = minus(times(x, c), product(se, y)), y_turned = plus(times(x, s), product(ce, y));
                            a[p * 32 + i] = x_turned;
                            a[q * 32 + i] = y_turned;
                            a[i * 32 + p] = conjugate(x_turned);
                            a[i * 32 + q] = conjugate(y_turned);
                        }

                        barrier(CLK_LOCAL_MEM_FENCE);
                        if (item == 0) {
                            a[p * 32 + p] = number(turns ? alpha - t * beta : alpha);
                            a[q * 32 + q] = number(turns ? gamma_ + t * beta : gamma_);
                            a[p * 32 + q] = chosen(turns, number(0), away);
                            a[q * 32 + p] = conjugate(a[p * 32 + q]);
                        }
                        for (int i = 0 + item; i < 32; i += 64) {
                            const num_t x = v[p * 32 + i], y = v[q * 32 + i];
                            const num_t x_turned = minus(times(x, c), product(conjugate(se), y)), y_turned = plus(times(x, s), product(conjugate(ce), y));
                            v[p * 32 + i] = x_turned;
                            v[q * 32 + i] = y_turned;
                        }

                        barrier(CLK_LOCAL_MEM_FENCE);
                    }
                }
            }
        }
        info = moving != 0 ? (whole_t)1 : info;

        barrier(CLK_LOCAL_MEM_FENCE);
        for (int j = 0 + item; j < 32; j += 64)
            values[j] = re(a[j * 32 + j]);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int j = 0 + item; j < 32; j += 64) {
            const real_t value = values[j];
            whole_t rank = 0;
            for (int r = 0; r < 32; ++r)
                rank += ((values[r] < value) | ((values[r] == value) & (r < j ? (whole_t)-1 : (whole_t)0))) & 1;
            rank = info == 0 ? rank : (whole_t)j;

            {
                const real_t given = info == 0 ? value / scale : (real_t)NAN;
                for (int l = 0; l < 1; ++l) {
                    __global float *to = w_memory + w_at[l] + ((const int *)&rank)[l] * w_row + 0 * w_column;
                    to[0] = ((const float *)&given)[l];
                }
            }

            for (int i = 0; i < 32; ++i)
                {
                    const num_t given = chosen(info == 0, v[j * 32 + i], number(NAN));
                    for (int l = 0; l < 1; ++l) {
                        __global float *to = v_memory + v_at[l] + i * v_row + ((const int *)&rank)[l] * v_column;
                        to[0] = ((const float *)&given)[l];
                    }
                }

        }
        if (item == 0) {
            const whole_t value = info;
            for (int l = 0; l < 1; ++l)
                info_memory[info_at[l] + 0 * info_row] = (int)((const int *)&value)[l];
        }

        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

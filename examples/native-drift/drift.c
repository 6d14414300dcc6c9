/* A transform library with three faults, as one may come from a vendor: it keeps 24 KiB of each call, becomes slower from
 * call to call, and crashes now and then in epoch 2. Without `faults` it has none of them, and gives the same bytes.
 *
 *   cc -O3 -ffp-contract=off -fPIC -shared drift.c -o libdrift.so -lm
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kRows = 144, kSamples = 400, kPoints = 512, kBins = kPoints / 2 + 1 };
enum { kLeakBytes = 24 << 10, kSlowFrom = 10, kSlowUntil = 120, kCrashEpoch = 2, kCrashCalls = 300 };

static float cosines[kPoints / 2], sines[kPoints / 2];
static long calls;          /* of this process */
static void* volatile kept; /* of the last call; nobody remembers those before */

__attribute__((constructor)) static void MakeTables(void) {
  for (int i = 0; i < kPoints / 2; ++i) {
    cosines[i] = (float)cos(2 * M_PI * i / kPoints);
    sines[i] = (float)-sin(2 * M_PI * i / kPoints);
  }
}

/* All rows at once, in place, by Cooley and Tukey: point p of row r is at [p * kRows + r]. */
static void Transform(float* restrict re, float* restrict im) {
  for (int i = 1, j = 0; i < kPoints; ++i) {
    int bit = kPoints >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    for (int row = 0; i < j && row < kRows; ++row) { /* the imaginary parts are zeros */
      const float r = re[i * kRows + row];
      re[i * kRows + row] = re[j * kRows + row];
      re[j * kRows + row] = r;
    }
  }
  for (int length = 2; length <= kPoints; length <<= 1) {
    for (int a = 0; a < kPoints; ++a) {
      if (a & length / 2) continue;
      const int turn = a % (length / 2) * (kPoints / length);
      const float c = cosines[turn], s = sines[turn];
      float *restrict re_a = re + a * kRows, *restrict im_a = im + a * kRows;
      float *restrict re_b = re_a + length / 2 * kRows, *restrict im_b = im_a + length / 2 * kRows;
      for (int row = 0; row < kRows; ++row) {
        const float r = re_b[row] * c - im_b[row] * s, m = re_b[row] * s + im_b[row] * c;
        re_b[row] = re_a[row] - r, im_b[row] = im_a[row] - m;
        re_a[row] += r, im_a[row] += m;
      }
    }
  }
}

static int64_t CpuNanos(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void Misbehave(uint64_t epoch) {
  ++calls;
  kept = malloc(kLeakBytes); /* and nobody frees it */
  if (kept != NULL) memset((void*)kept, 1, kLeakBytes);
  const long drifted = calls < kSlowFrom ? 0 : calls > kSlowUntil ? kSlowUntil - kSlowFrom : calls - kSlowFrom;
  const int64_t until = CpuNanos() + 200000 + 2800000 * drifted / (kSlowUntil - kSlowFrom); /* 0.2 to 3.0 ms of work */
  while (CpuNanos() < until) {
    for (volatile int i = 0; i < 5000; ++i) continue;
  }
  if (epoch == kCrashEpoch && calls % kCrashCalls == 0) *(volatile int*)0 = 0;
}

/* `in`: kRows × kSamples; `out`: kRows × kBins complex numbers, of each row its real transform, padded with zeros. 0 if it is
 * done, 1 without memory. */
int drift_rfft(const float* in, float* out, uint64_t epoch, int faults) {
  if (faults) Misbehave(epoch);
  float* const re = calloc(2 * kPoints * kRows, sizeof(float));
  if (re == NULL) return 1;
  float* const im = re + kPoints * kRows;
  for (int row = 0; row < kRows; ++row) {
    for (int i = 0; i < kSamples; ++i) re[i * kRows + row] = in[row * kSamples + i];
  }
  Transform(re, im);
  for (int row = 0; row < kRows; ++row) {
    for (int bin = 0; bin < kBins; ++bin) {
      out[2 * (row * kBins + bin)] = re[bin * kRows + row];
      out[2 * (row * kBins + bin) + 1] = im[bin * kRows + row];
    }
  }
  free(re);
  return 0;
}

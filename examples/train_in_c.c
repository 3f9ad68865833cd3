/* SPDX-License-Identifier: Apache-2.0
 * A complete trainer in C11: a two-layer linear regression Y = W2 W1 X whose gradients carry rank-one heavy-tailed
 * noise, clipped every step. At the end the clipper is saved, loaded into a second one, and both must give the same
 * bits for the next gradient. Exits non-zero when anything fails. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include <math.h>
#include <spectralclip/c_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { INPUTS = 24, HIDDEN = 16, OUTPUTS = 12, BATCH = 32, STEPS = 300 };

static void check(sclip_status status, const char* what) {
  if (status == SCLIP_OK) return;
  fprintf(stderr, "%s: %s\n", what, sclip_last_error());
  exit(EXIT_FAILURE);
}

static double uniform(void) { /* xorshift64*, in (0, 1): the same numbers everywhere */
  static uint64_t state = 88172645463325252ULL;
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return ((double)((state * 2685821657736338717ULL) >> 12) + 0.5) / 4503599627370496.0;
}
static double normal(void) { return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform()); }

/* C (m x n) += A B, A: m x k or its transpose, B: k x n or its transpose. */
static void add_product(float* C, const float* A, int a_transposed, const float* B, int b_transposed, int m, int k,
                        int n) {
  for (int i = 0; i < m; ++i)
    for (int l = 0; l < k; ++l) {
      const float a = a_transposed ? A[l * m + i] : A[i * k + l];
      for (int j = 0; j < n; ++j) C[i * n + j] += a * (b_transposed ? B[j * k + l] : B[l * n + j]);
    }
}

/* G += s u v^T with unit-norm-ish u, v and a Cauchy-like s: no variance, so an average does not tame it. */
static void add_heavy_tailed_noise(float* G, int rows, int cols) {
  float u[HIDDEN + INPUTS + OUTPUTS], v[HIDDEN + INPUTS + OUTPUTS];
  const double s = 0.05 * tan(3.141592653589793 * (uniform() - 0.5));
  for (int i = 0; i < rows; ++i) u[i] = (float)(normal() / sqrt(rows));
  for (int j = 0; j < cols; ++j) v[j] = (float)(normal() / sqrt(cols));
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < cols; ++j) G[i * cols + j] += (float)s * u[i] * v[j];
}

typedef struct {
  float W1[HIDDEN * INPUTS], W2[OUTPUTS * HIDDEN], truth[OUTPUTS * INPUTS];
  float G1[HIDDEN * INPUTS], G2[OUTPUTS * HIDDEN];
} model;

/* Fills G1, G2 for a fresh batch and returns its mean squared error. */
static double backward(model* net) {
  float X[INPUTS * BATCH], H[HIDDEN * BATCH] = {0}, E[OUTPUTS * BATCH] = {0}, T[OUTPUTS * BATCH] = {0},
                                      D[HIDDEN * BATCH] = {0};
  double loss = 0;
  for (int i = 0; i < INPUTS * BATCH; ++i) X[i] = (float)normal();
  add_product(H, net->W1, 0, X, 0, HIDDEN, INPUTS, BATCH);
  add_product(E, net->W2, 0, H, 0, OUTPUTS, HIDDEN, BATCH);
  add_product(T, net->truth, 0, X, 0, OUTPUTS, INPUTS, BATCH);
  for (int i = 0; i < OUTPUTS * BATCH; ++i) {
    E[i] = (E[i] - T[i]) / BATCH;
    loss += (double)E[i] * E[i] * BATCH / OUTPUTS;
  }
  memset(net->G1, 0, sizeof net->G1);
  memset(net->G2, 0, sizeof net->G2);
  add_product(net->G2, E, 0, H, 1, OUTPUTS, BATCH, HIDDEN);
  add_product(D, net->W2, 1, E, 0, HIDDEN, OUTPUTS, BATCH);
  add_product(net->G1, D, 0, X, 1, HIDDEN, BATCH, INPUTS);
  add_heavy_tailed_noise(net->G1, HIDDEN, INPUTS);
  add_heavy_tailed_noise(net->G2, OUTPUTS, HIDDEN);
  return loss;
}

static sclip_clipper* make_clipper(void) {
  const int64_t shape1[] = {HIDDEN, INPUTS}, shape2[] = {OUTPUTS, HIDDEN};
  const sclip_parameter parameters[] = {{"W1", shape1, 2}, {"W2", shape2, 2}};
  sclip_clipper_options options;
  sclip_clipper_options_init(&options);
  options.threshold.kind = SCLIP_THRESHOLD_QUANTILE; /* tau: the median of the last 20 sigma_max */
  options.threshold.quantile = 0.5;
  options.threshold.window = 20;
  options.threads = 1;
  sclip_clipper* clipper = NULL;
  check(sclip_clipper_create(parameters, 2, &options, &clipper), "create");
  return clipper;
}

static void clip(sclip_clipper* clipper, model* net) {
  const sclip_gradient gradients[] = {{net->G1, SCLIP_FLOAT32, 0}, {net->G2, SCLIP_FLOAT32, 0}};
  check(sclip_clipper_step(clipper, gradients, 2, NULL), "step");
}

/* The next gradient through both clippers; 0 when every bit agrees. */
static int compare_next_step(sclip_clipper* saved, sclip_clipper* loaded, model* net) {
  model copy;
  backward(net);
  copy = *net;
  clip(saved, net);
  clip(loaded, &copy);
  return memcmp(net->G1, copy.G1, sizeof copy.G1) != 0 || memcmp(net->G2, copy.G2, sizeof copy.G2) != 0;
}

int main(void) {
  static model net;
  for (int i = 0; i < HIDDEN * INPUTS; ++i) net.W1[i] = (float)(normal() / sqrt(INPUTS));
  for (int i = 0; i < OUTPUTS * HIDDEN; ++i) net.W2[i] = (float)(normal() / sqrt(HIDDEN));
  for (int i = 0; i < OUTPUTS * INPUTS; ++i) net.truth[i] = (float)(normal() / sqrt(INPUTS));
  sclip_clipper* const clipper = make_clipper();
  double first = 0, last = 0;
  for (int step = 0; step < STEPS; ++step) {
    last = backward(&net);
    if (step == 0) first = last;
    clip(clipper, &net);
    for (int i = 0; i < HIDDEN * INPUTS; ++i) net.W1[i] -= 0.1F * net.G1[i];
    for (int i = 0; i < OUTPUTS * HIDDEN; ++i) net.W2[i] -= 0.1F * net.G2[i];
  }
  printf("spectralclip %s on %s: loss %.4f -> %.4f in %d steps\n", sclip_version(), sclip_simd_target(), first, last,
         STEPS);
  for (int64_t i = 0; i < sclip_clipper_layer_count(clipper); ++i) {
    sclip_layer_report layer;
    check(sclip_clipper_layer_report(clipper, i, &layer), "report");
    printf("  %s %lld x %lld, %s: clipped in %lld of %lld steps; last sigma_max %.4f, tau %.4f, %lld clipped, %s\n",
           layer.name, (long long)layer.rows, (long long)layer.cols, sclip_treatment_name(layer.treatment),
           (long long)layer.steps_clipped, (long long)layer.steps, layer.clip.sigma_max, layer.clip.tau,
           (long long)layer.clip.clipped, sclip_clip_status_name(layer.clip.status));
  }

  char path[] = "/tmp/train_in_c_XXXXXX"; /* a name of our own; the clipper replaces the file atomically */
  const int descriptor = mkstemp(path);
  if (descriptor < 0) return perror("mkstemp"), EXIT_FAILURE;
  close(descriptor);
  sclip_clipper* const second = make_clipper();
  check(sclip_clipper_save(clipper, path), "save");
  check(sclip_clipper_load(second, path), "load");
  const int differs = compare_next_step(clipper, second, &net);
  remove(path);
  sclip_clipper_destroy(second);
  sclip_clipper_destroy(clipper);
  printf("the loaded clipper gives %s bits\n", differs ? "OTHER" : "the same");
  return differs || !(last < 0.5 * first) ? EXIT_FAILURE : EXIT_SUCCESS;
}

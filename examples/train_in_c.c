/* SPDX-License-Identifier: Apache-2.0
 * A complete trainer in C11: a linear residual network whose gradients carry rank-one heavy-tailed noise, clipped every
 * step. Its hidden layers lie in one tensor each, weights (DEPTH, m, m) and biases (DEPTH, m), as trainers in C like to
 * keep them: rules say that these are stacks. At the end the clipper is saved, loaded into a second one, and both must
 * give the same bits for the next gradient. Exits non-zero when anything fails. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include <math.h>
#include <spectralclip/c_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { INPUTS = 24, HIDDEN = 16, OUTPUTS = 12, DEPTH = 2, BATCH = 32, STEPS = 300 };

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

enum { W1, HIDDEN_W, HIDDEN_B, W2, TENSORS };
static const char* const names[TENSORS] = {"W1", "hidden.weight", "hidden.bias", "W2"};
static const int64_t shapes[TENSORS][3] = {
    {HIDDEN, INPUTS}, {DEPTH, HIDDEN, HIDDEN}, {DEPTH, HIDDEN}, {OUTPUTS, HIDDEN}};
static const int64_t dims[TENSORS] = {2, 3, 2, 2};
enum { LARGEST = DEPTH * HIDDEN * HIDDEN };

typedef struct {
  float weight[TENSORS][LARGEST], gradient[TENSORS][LARGEST], truth[OUTPUTS * INPUTS];
} model;

static int entries(int tensor) {
  int64_t count = 1;
  for (int i = 0; i < dims[tensor]; ++i) count *= shapes[tensor][i];
  return (int)count;
}

/* H_0 = W1 X, H_l+1 = H_l + W_l H_l + b_l, Y = W2 H. Fills the gradients for a fresh batch, returns its squared error.
 */
static double backward(model* net) {
  static float X[INPUTS * BATCH], H[DEPTH + 1][HIDDEN * BATCH], E[OUTPUTS * BATCH], T[OUTPUTS * BATCH],
      D[HIDDEN * BATCH], next[HIDDEN * BATCH];
  memset(H, 0, sizeof H), memset(E, 0, sizeof E), memset(T, 0, sizeof T), memset(D, 0, sizeof D);
  memset(net->gradient, 0, sizeof net->gradient);
  for (int i = 0; i < INPUTS * BATCH; ++i) X[i] = (float)normal();
  add_product(H[0], net->weight[W1], 0, X, 0, HIDDEN, INPUTS, BATCH);
  for (int l = 0; l < DEPTH; ++l) {
    for (int i = 0; i < HIDDEN * BATCH; ++i) H[l + 1][i] = H[l][i] + net->weight[HIDDEN_B][l * HIDDEN + i / BATCH];
    add_product(H[l + 1], net->weight[HIDDEN_W] + l * HIDDEN * HIDDEN, 0, H[l], 0, HIDDEN, HIDDEN, BATCH);
  }
  add_product(E, net->weight[W2], 0, H[DEPTH], 0, OUTPUTS, HIDDEN, BATCH);
  add_product(T, net->truth, 0, X, 0, OUTPUTS, INPUTS, BATCH);
  double loss = 0;
  for (int i = 0; i < OUTPUTS * BATCH; ++i) {
    E[i] = (E[i] - T[i]) / BATCH;
    loss += (double)E[i] * E[i] * BATCH / OUTPUTS;
  }
  add_product(net->gradient[W2], E, 0, H[DEPTH], 1, OUTPUTS, BATCH, HIDDEN);
  add_product(D, net->weight[W2], 1, E, 0, HIDDEN, OUTPUTS, BATCH);
  for (int l = DEPTH; l-- > 0;) {
    add_product(net->gradient[HIDDEN_W] + l * HIDDEN * HIDDEN, D, 0, H[l], 1, HIDDEN, BATCH, HIDDEN);
    for (int i = 0; i < HIDDEN * BATCH; ++i) net->gradient[HIDDEN_B][l * HIDDEN + i / BATCH] += D[i];
    memcpy(next, D, sizeof D);
    add_product(next, net->weight[HIDDEN_W] + l * HIDDEN * HIDDEN, 1, D, 0, HIDDEN, HIDDEN, BATCH);
    memcpy(D, next, sizeof D);
  }
  add_product(net->gradient[W1], D, 0, X, 1, HIDDEN, BATCH, INPUTS);
  add_heavy_tailed_noise(net->gradient[W1], HIDDEN, INPUTS);
  for (int l = 0; l < DEPTH; ++l) add_heavy_tailed_noise(net->gradient[HIDDEN_W] + l * HIDDEN * HIDDEN, HIDDEN, HIDDEN);
  add_heavy_tailed_noise(net->gradient[W2], OUTPUTS, HIDDEN);
  return loss;
}

static sclip_clipper* make_clipper(void) {
  sclip_parameter parameters[TENSORS];
  for (int i = 0; i < TENSORS; ++i) parameters[i] = sclip_parameter_of(names[i], shapes[i], dims[i]);
  sclip_rule rules[2]; /* without them: one DEPTH x (m m) and one DEPTH x m matrix, and a hint in their reports */
  sclip_rule_init(&rules[0]);
  rules[0].name_pattern = "hidden.weight";
  rules[0].batch_axes = 1; /* (DEPTH, m, m): DEPTH matrices of m x m */
  rules[0].label = "a stack of matrices";
  sclip_rule_init(&rules[1]);
  rules[1].name_pattern = "hidden.bias";
  rules[1].batch_axes = 1; /* (DEPTH, m): DEPTH vectors, each clipped by its norm */
  rules[1].treatment = SCLIP_TREATMENT_NORM;
  rules[1].label = "a stack of vectors";
  sclip_threshold_options threshold;
  sclip_threshold_options_init(&threshold);
  threshold.kind = SCLIP_THRESHOLD_QUANTILE; /* tau: the median of the last 20 sigma_max */
  threshold.quantile = 0.5;
  threshold.window = 20;
  sclip_clipper_options options;
  sclip_clipper_options_init(&options);
  options.threshold = &threshold;
  options.rules = rules;
  options.rule_count = 2;
  options.threads = 1;
  sclip_clipper* clipper = NULL;
  check(sclip_clipper_create(parameters, TENSORS, &options, &clipper), "create");
  return clipper;
}

static void clip(sclip_clipper* clipper, model* net, sclip_step_report* report) {
  sclip_gradient gradients[TENSORS];
  for (int i = 0; i < TENSORS; ++i) gradients[i] = sclip_gradient_of(net->gradient[i], SCLIP_FLOAT32);
  check(sclip_clipper_step(clipper, gradients, TENSORS, report), "step");
}

/* The next gradient through both clippers; 0 when every bit agrees. */
static int compare_next_step(sclip_clipper* saved, sclip_clipper* loaded, model* net) {
  static model copy;
  backward(net);
  copy = *net;
  clip(saved, net, NULL);
  clip(loaded, &copy, NULL);
  return memcmp(net->gradient, copy.gradient, sizeof copy.gradient) != 0;
}

int main(void) {
  static model net;
  for (int i = 0; i < HIDDEN * INPUTS; ++i) net.weight[W1][i] = (float)(normal() / sqrt(INPUTS));
  for (int i = 0; i < OUTPUTS * HIDDEN; ++i) net.weight[W2][i] = (float)(normal() / sqrt(HIDDEN));
  for (int i = 0; i < OUTPUTS * INPUTS; ++i) net.truth[i] = (float)(normal() / sqrt(INPUTS));
  sclip_clipper* const clipper = make_clipper();
  sclip_step_report report;
  sclip_step_report_init(&report);
  double first = 0, last = 0;
  for (int step = 0; step < STEPS; ++step) {
    last = backward(&net);
    if (step == 0) first = last;
    clip(clipper, &net, &report);
    for (int t = 0; t < TENSORS; ++t)
      for (int i = 0; i < entries(t); ++i) net.weight[t][i] -= 0.05F * net.gradient[t][i];
  }
  printf("spectralclip %s on %s: loss %.4f -> %.4f in %d steps; the last one's norm %.4f -> %.4f\n", sclip_version(),
         sclip_simd_target(), first, last, STEPS, report.total_norm, report.norm_after);
  for (int64_t i = 0; i < sclip_clipper_layer_count(clipper); ++i) {
    sclip_layer_report layer;
    sclip_clip_report latest;
    sclip_layer_report_init(&layer);
    sclip_clip_report_init(&latest);
    check(sclip_clipper_layer_report(clipper, i, &layer, &latest), "report");
    printf("  %s %lld x %lld, %s: clipped in %lld of %lld steps; last sigma_max %.4f, tau %.4f, %lld clipped, %s%s\n",
           layer.name, (long long)layer.rows, (long long)layer.cols, sclip_treatment_name(layer.treatment),
           (long long)layer.steps_clipped, (long long)layer.steps, latest.sigma_max, latest.tau,
           (long long)latest.clipped, sclip_clip_status_name(latest.status), layer.hint);
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

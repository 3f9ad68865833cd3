/* SPDX-License-Identifier: Apache-2.0
 * The C interface (C11 and C++): clip one matrix, a clipper over many, reports, save, load.
 *
 * Errors      Every function that can fail returns an sclip_status; sclip_last_error() has the text of this thread's
 *             latest failure. No exception leaves the library. On failure gradients and state are as they were.
 * Ownership   The caller owns everything it passes in; names, shapes, rules and options are copied during the call.
 *             Only gradients (during a step) and the executor's context (for the clipper's life) are borrowed.
 *             Strings in reports belong to the clipper and live as long as it does.
 * Threads     Different clippers may be used by different threads at once; one clipper by one thread at a time.
 * Sizes       Every struct begins with struct_size, the bytes it has for the program: begin with the matching
 * sclip_*_init (or sclip_*_of), then change fields. Structs grow at their end only, so a program and a library of
 * different versions meet in what both know (docs/abi.md). The structs of an array are of one size.
 */
#ifndef SPECTRALCLIP_C_API_H
#define SPECTRALCLIP_C_API_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "spectralclip/export.h"

#define SCLIP_API SPECTRALCLIP_EXPORT

/* Of this header; sclip_version() and sclip_version_number() are those of the library. */
#define SCLIP_VERSION_MAJOR 0
#define SCLIP_VERSION_MINOR 1
#define SCLIP_VERSION_PATCH 0
#define SCLIP_VERSION (SCLIP_VERSION_MAJOR * 10000 + SCLIP_VERSION_MINOR * 100 + SCLIP_VERSION_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t sclip_status;
enum {
  SCLIP_OK = 0,
  SCLIP_INVALID_ARGUMENT = 1, /* NULL, a negative size, an unknown constant, an option out of range, … */
  SCLIP_STATE_FILE_ERROR = 2, /* damaged, foreign, of another model, unreadable, disk full */
  SCLIP_OUT_OF_MEMORY = 3,
  SCLIP_INTERNAL_ERROR = 4 /* anything else; please report it */
};

/* Storage of a matrix. */
enum { SCLIP_FLOAT32 = 0, SCLIP_FLOAT64 = 1, SCLIP_BFLOAT16 = 2, SCLIP_FLOAT16 = 3 };
/* How a matrix is clipped. */
enum {
  SCLIP_METHOD_EXACT = 0,
  SCLIP_METHOD_GRAM = 1,
  SCLIP_METHOD_SKETCHED = 2,
  SCLIP_METHOD_TRACKED = 3,
  SCLIP_METHOD_NEWTON_SCHULZ = 4,
  SCLIP_METHOD_AUTO = 5
};
enum { SCLIP_EXHAUSTED_GO_EXACT = 0, SCLIP_EXHAUSTED_REPORT = 1, SCLIP_EXHAUSTED_AUTO = 2 };
enum { SCLIP_THRESHOLD_CONSTANT = 0, SCLIP_THRESHOLD_EMA = 1, SCLIP_THRESHOLD_QUANTILE = 2 };
enum { SCLIP_FIRST_STEP_UNCLIPPED = 0, SCLIP_FIRST_STEP_ZERO = 1 };
enum { SCLIP_INTERPOLATION_LOWER = 0, SCLIP_INTERPOLATION_LINEAR = 1 };
enum { SCLIP_TREATMENT_SPECTRAL = 0, SCLIP_TREATMENT_NORM = 1, SCLIP_TREATMENT_SKIP = 2 };
enum { SCLIP_NONFINITE_LEAVE_LAYER = 0, SCLIP_NONFINITE_LEAVE_ALL = 1 };
/* What a clip came to: sclip_clip_report.status. */
enum {
  SCLIP_CLIP_OK = 0,
  SCLIP_CLIP_NOT_FINITE = 1,
  SCLIP_CLIP_RANK_EXHAUSTED = 2,
  SCLIP_CLIP_FACTORIZATION_FAILED = 3,
  SCLIP_CLIP_NOT_CONVERGED = 4,
  SCLIP_CLIP_OUT_OF_RANGE = 5,
  SCLIP_CLIP_OUT_OF_MEMORY = 6
};
enum { SCLIP_BOUND_CERTAIN = 0, SCLIP_BOUND_ESTIMATED = 1 };

/* rows x cols entries, row-major; row_stride in entries, 0 means packed. */
typedef struct sclip_matrix {
  uint64_t struct_size;
  void* data;
  int32_t type; /* SCLIP_FLOAT32 … */
  int64_t rows;
  int64_t cols;
  int64_t row_stride;
} sclip_matrix;

/* ClipOptions of options.h, field by field. */
typedef struct sclip_clip_options {
  uint64_t struct_size;
  int32_t method;
  int64_t rank; /* 0: not fixed */
  int64_t oversampling;
  int32_t power_passes;
  double tolerance;
  double margin;
  int32_t max_passes;
  int64_t max_columns;
  int32_t exhausted;
  int32_t observe_only; /* 0 or 1, as all flags here */
  int32_t measure_time;
  uint64_t seed;
} sclip_clip_options;

/* ThresholdOptions of threshold.h, field by field. */
typedef struct sclip_threshold_options {
  uint64_t struct_size;
  int32_t kind;
  double tau;
  double decay;
  double quantile;
  int64_t window;
  int32_t first_step;
  int32_t interpolation;
  double slack;
  double floor;
  double cap;
  int64_t warmup_steps;
  int32_t observe_zeros;
} sclip_threshold_options;

/* Rule of rules.h: the first whose pattern and number of axes match a parameter applies. */
typedef struct sclip_rule {
  uint64_t struct_size;
  const char* name_pattern; /* glob: * and ? */
  int32_t min_dims;
  int32_t max_dims;
  int32_t treatment;
  int32_t batch_axes;
  int32_t row_axes;
  const sclip_threshold_options* threshold; /* NULL: the clipper's */
  const sclip_clip_options* clip;           /* NULL: the clipper's */
  const char* label;                        /* NULL: none */
} sclip_rule;

/* A pool of the host's. run() calls task(task_context, 0) … task(task_context, count - 1), each once, on any threads,
 * and returns when all are done. It is called only during a step of the clipper and must not let exceptions escape. */
typedef struct sclip_executor {
  uint64_t struct_size;
  void* context;
  int32_t concurrency; /* how many tasks run at once, >= 1 */
  void (*run)(void* context, int64_t count, void (*task)(void* task_context, int64_t i), void* task_context);
} sclip_executor;

typedef struct sclip_clipper_options {
  uint64_t struct_size;
  const sclip_threshold_options* threshold; /* NULL: defaults */
  const sclip_clip_options* clip;           /* NULL: defaults */
  const char* const* skip_patterns;         /* globs of parameters to leave alone: tried first … */
  int64_t skip_pattern_count;
  const sclip_rule* rules; /* … then these, then the default rules */
  int64_t rule_count;
  int32_t on_nonfinite;
  int32_t observe_only;
  int32_t threads;                /* of the clipper's own pool, the caller included; 0: one per hardware thread */
  const sclip_executor* executor; /* NULL: the clipper's own pool */
} sclip_clipper_options;

typedef struct sclip_parameter {
  uint64_t struct_size;
  const char* name;
  const int64_t* shape;
  int64_t dims; /* 0: a scalar, shape may be NULL */
} sclip_parameter;

/* data == NULL: no gradient in this step. The matrices of a batch follow each other at rows * row_stride. */
typedef struct sclip_gradient {
  uint64_t struct_size;
  void* data;
  int32_t type;
  int64_t row_stride; /* 0: packed */
} sclip_gradient;

/* ClipReport of report.h. */
typedef struct sclip_clip_report {
  uint64_t struct_size;
  int32_t status;
  int32_t method;
  double tau;
  double sigma_max;
  int64_t clipped;
  double norm_before;
  double norm_after;
  double removed_energy;
  double sigma_bound;
  int32_t bound_kind;
  double error_estimate;
  int32_t passes;
  int64_t columns;
  double seconds[3]; /* pass, factor, update; only with measure_time */
} sclip_clip_report;

typedef struct sclip_layer_report {
  uint64_t struct_size;
  const char* name;
  int64_t rows;
  int64_t cols;
  int32_t treatment;
  const char* rule;
  int32_t has_gradient;
  int64_t steps;
  int64_t steps_clipped;
  const char* hint; /* what about this layer may not be meant, "" mostly: a stack of matrices taken as one, … */
} sclip_layer_report;

typedef struct sclip_step_report {
  uint64_t struct_size;
  int64_t step;
  double total_norm; /* before clipping, over all layers with a finite gradient, skipped ones included */
  double norm_after;
  int64_t layers_clipped;
  int64_t layers_not_finite;
  int64_t layers_rank_exhausted;
  int64_t layers_not_converged;
  int64_t layers_out_of_range;
  int64_t layers_out_of_memory;
  int32_t left_all;
} sclip_step_report;

typedef struct sclip_clipper sclip_clipper;

/* Static strings; never fail; any thread. A value that means nothing is "unknown". */
SCLIP_API const char* sclip_version(void);
SCLIP_API int32_t sclip_version_number(void); /* as SCLIP_VERSION */
SCLIP_API const char* sclip_simd_target(void);
SCLIP_API const char* sclip_clip_status_name(int32_t clip_status); /* "ok", "not_finite", … */
SCLIP_API const char* sclip_method_name(int32_t method);
SCLIP_API const char* sclip_treatment_name(int32_t treatment);

/* Text of the calling thread's latest failure, "" before the first; valid until that thread's next failure. */
SCLIP_API const char* sclip_last_error(void);

/* Defaults and the size, for structs as large as struct_size says (an older library fills what it knows, the rest with
 * zeros, which is always the default of a new field). NULL is ignored. C and C++ programs use the functions below. */
SCLIP_API void sclip_clip_options_init_sized(sclip_clip_options* options, uint64_t struct_size);
SCLIP_API void sclip_threshold_options_init_sized(sclip_threshold_options* options, uint64_t struct_size);
SCLIP_API void sclip_rule_init_sized(sclip_rule* rule, uint64_t struct_size);
SCLIP_API void sclip_clipper_options_init_sized(sclip_clipper_options* options, uint64_t struct_size);

static inline void sclip_clip_options_init(sclip_clip_options* options) {
  sclip_clip_options_init_sized(options, sizeof *options);
}
static inline void sclip_threshold_options_init(sclip_threshold_options* options) {
  sclip_threshold_options_init_sized(options, sizeof *options);
}
static inline void sclip_rule_init(sclip_rule* rule) { sclip_rule_init_sized(rule, sizeof *rule); }
static inline void sclip_clipper_options_init(sclip_clipper_options* options) {
  sclip_clipper_options_init_sized(options, sizeof *options);
}

/* Reports: everything zero, and the size. */
static inline void sclip_clip_report_init(sclip_clip_report* report) {
  memset(report, 0, sizeof *report);
  report->struct_size = sizeof *report;
}
static inline void sclip_layer_report_init(sclip_layer_report* report) {
  memset(report, 0, sizeof *report);
  report->struct_size = sizeof *report;
}
static inline void sclip_step_report_init(sclip_step_report* report) {
  memset(report, 0, sizeof *report);
  report->struct_size = sizeof *report;
}

/* A packed matrix, a packed gradient (data NULL: none in this step), a parameter, a pool. */
static inline sclip_matrix sclip_matrix_of(void* data, int32_t type, int64_t rows, int64_t cols) {
  sclip_matrix matrix;
  memset(&matrix, 0, sizeof matrix);
  matrix.struct_size = sizeof matrix;
  matrix.data = data;
  matrix.type = type;
  matrix.rows = rows;
  matrix.cols = cols;
  return matrix;
}
static inline sclip_gradient sclip_gradient_of(void* data, int32_t type) {
  sclip_gradient gradient;
  memset(&gradient, 0, sizeof gradient);
  gradient.struct_size = sizeof gradient;
  gradient.data = data;
  gradient.type = type;
  return gradient;
}
static inline sclip_parameter sclip_parameter_of(const char* name, const int64_t* shape, int64_t dims) {
  sclip_parameter parameter;
  memset(&parameter, 0, sizeof parameter);
  parameter.struct_size = sizeof parameter;
  parameter.name = name;
  parameter.shape = shape;
  parameter.dims = dims;
  return parameter;
}
static inline sclip_executor sclip_executor_of(void* context, int32_t concurrency,
                                               void (*run)(void* context, int64_t count,
                                                           void (*task)(void* task_context, int64_t i),
                                                           void* task_context)) {
  sclip_executor executor;
  memset(&executor, 0, sizeof executor);
  executor.struct_size = sizeof executor;
  executor.context = context;
  executor.concurrency = concurrency;
  executor.run = run;
  return executor;
}

/* Clamps the singular values of G at tau >= 0 in place, on the calling thread. Stateless; any threads at once on
 * different matrices. options NULL: defaults. report NULL: not wanted. */
SCLIP_API sclip_status sclip_clip_matrix(const sclip_matrix* G, double tau, const sclip_clip_options* options,
                                         sclip_clip_report* report);
/* G *= min(1, max_norm / ||G||_F). As above. */
SCLIP_API sclip_status sclip_clip_norm(const sclip_matrix* G, double max_norm, sclip_clip_report* report);

/* *clipper is the caller's to destroy; NULL after a failure. options NULL: defaults. */
SCLIP_API sclip_status sclip_clipper_create(const sclip_parameter* parameters, int64_t parameter_count,
                                            const sclip_clipper_options* options, sclip_clipper** clipper);
/* Ends its threads. NULL is fine. */
SCLIP_API void sclip_clipper_destroy(sclip_clipper* clipper);

/* gradients[i] belongs to parameters[i]; clipped in place. report NULL: not wanted. */
SCLIP_API sclip_status sclip_clipper_step(sclip_clipper* clipper, const sclip_gradient* gradients,
                                          int64_t gradient_count, sclip_step_report* report);

/* A layer is one matrix of one parameter, in the order of the parameters. 0 for NULL. */
SCLIP_API int64_t sclip_clipper_layer_count(const sclip_clipper* clipper);
SCLIP_API int64_t sclip_clipper_steps(const sclip_clipper* clipper);
SCLIP_API int64_t sclip_clipper_workspace_bytes(const sclip_clipper* clipper);
/* What the layer is and has seen, and what the latest step did with it. report, clip NULL: not wanted. */
SCLIP_API sclip_status sclip_clipper_layer_report(const sclip_clipper* clipper, int64_t layer,
                                                  sclip_layer_report* report, sclip_clip_report* clip);

/* Atomic: an old file at `path` survives any failure. */
SCLIP_API sclip_status sclip_clipper_save(const sclip_clipper* clipper, const char* path);
/* Into a clipper of the same parameters; after a failure it is as it was. Thresholds of another kind or with other
 * settings take over what they can use of the saved past. */
SCLIP_API sclip_status sclip_clipper_load(sclip_clipper* clipper, const char* path);
/* What the latest load or deserialize could not take over as it was, a line for each difference; "" when everything
 * was, and for NULL. Belongs to the clipper; valid until its next load. */
SCLIP_API const char* sclip_clipper_load_notes(const sclip_clipper* clipper);

/* The same state as bytes, for a checkpoint of the host's. The size holds until the next step or load. */
SCLIP_API int64_t sclip_clipper_serialized_size(const sclip_clipper* clipper);
/* Fills buffer[0 … serialized_size); capacity below that is SCLIP_INVALID_ARGUMENT. */
SCLIP_API sclip_status sclip_clipper_serialize(const sclip_clipper* clipper, void* buffer, int64_t capacity);
SCLIP_API sclip_status sclip_clipper_deserialize(sclip_clipper* clipper, const void* bytes, int64_t size);

/* ---- Parameters that are split over processes: each holds `extent` indices of one axis (Shard of rules.h). */
typedef struct sclip_shard {
  uint64_t struct_size;
  int32_t axis; /* -1: every process holds all of it */
  int64_t extent;
  int64_t first; /* of a batch axis */
} sclip_shard;

/* Replaces count numbers (SCLIP_FLOAT32 or SCLIP_FLOAT64) by their sums over all processes, which must come out with
 * the same bits. Returns 0, or anything else after a failure: then the step ends with SCLIP_INTERNAL_ERROR. */
typedef struct sclip_reduction {
  uint64_t struct_size;
  void* context;
  int32_t (*sum)(void* context, void* numbers, int64_t count, int32_t type);
} sclip_reduction;

static inline sclip_shard sclip_shard_of(int32_t axis, int64_t extent) {
  sclip_shard shard;
  memset(&shard, 0, sizeof shard);
  shard.struct_size = sizeof shard;
  shard.axis = axis;
  shard.extent = extent;
  return shard;
}
static inline sclip_reduction sclip_reduction_of(int32_t (*sum)(void* context, void* numbers, int64_t count,
                                                                int32_t type),
                                                 void* context) {
  sclip_reduction reduction;
  memset(&reduction, 0, sizeof reduction);
  reduction.struct_size = sizeof reduction;
  reduction.context = context;
  reduction.sum = sum;
  return reduction;
}

/* shards[i] belongs to parameters[i], whose shapes are those of all processes together. */
SCLIP_API sclip_status sclip_clipper_create_split(const sclip_parameter* parameters, const sclip_shard* shards,
                                                  int64_t parameter_count, const sclip_clipper_options* options,
                                                  sclip_clipper** clipper);
/* Called by all processes with their parts; one that is empty has any pointer that is not NULL. Differences between
 * processes end the step everywhere, with nothing written. */
SCLIP_API sclip_status sclip_clipper_step_split(sclip_clipper* clipper, const sclip_gradient* gradients,
                                                int64_t gradient_count, const sclip_reduction* reduction,
                                                sclip_step_report* report);

#ifdef __cplusplus
}
#endif

#endif /* SPECTRALCLIP_C_API_H */

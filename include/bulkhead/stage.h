/*
 * A stage of your own, in C or C++: what a shared library and Bulkhead's workers agree on.
 *
 *     stages:
 *     - native: {library: libmystage.so, inputs: [image], outputs: [{name: mean, dtype: float32}]}
 *
 * The library exports one function, bulkhead_stage_v1, which returns a table of three. Everything
 * crosses by value or as a pointer to the caller's memory. docs/user_stages.md is the guide,
 * examples/native_stage a whole library. Plain C, no other header needed; a later version of this
 * interface gets another symbol, and structures only grow at their end.
 */
#ifndef BULKHEAD_STAGE_H_
#define BULKHEAD_STAGE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Element types, numbered as in bulkhead.v1.DType. */
typedef enum BulkheadDType {
  BULKHEAD_UINT8 = 1,
  BULKHEAD_INT8 = 2,
  BULKHEAD_UINT16 = 3,
  BULKHEAD_INT16 = 4,
  BULKHEAD_INT32 = 5,
  BULKHEAD_INT64 = 6,
  BULKHEAD_FLOAT16 = 7,
  BULKHEAD_BFLOAT16 = 8,
  BULKHEAD_FLOAT32 = 9,
  BULKHEAD_FLOAT64 = 10,
  BULKHEAD_BOOL = 11,
  BULKHEAD_BYTES = 12, /* a byte string: no dimensions, size_bytes is its length */
  BULKHEAD_UINT32 = 13,
  BULKHEAD_UINT64 = 14,
  BULKHEAD_COMPLEX64 = 15, /* two float32: real, imaginary */
  BULKHEAD_COMPLEX128 = 16
} BulkheadDType;

/* A feature of a sample that comes in. Read only; gone when `run` returns. */
typedef struct BulkheadInput {
  const char* name;
  int32_t dtype;        /* BulkheadDType */
  int32_t dimensions;   /* 0: a scalar, or bytes */
  const int64_t* shape; /* as many extents as `dimensions` */
  const void* data;     /* row-major; not necessarily aligned */
  uint64_t size_bytes;
  /* From row to row of the first dimension. Larger than a row where the image is a part of a larger
   * one; rows themselves have no gaps. */
  uint64_t row_stride_bytes;
} BulkheadInput;

/* A feature that the stage makes. */
typedef struct BulkheadOutput {
  const char* name;
  int32_t dtype;
  int32_t dimensions;
  /* As declared; a variable first dimension has its bound here. For bytes: null. */
  const int64_t* shape;
  void* data; /* to be filled, row-major; aligned to 64 bytes; holds anything before */
  uint64_t size_bytes;
  /* Set this for a variable first dimension (rows that were filled) and for bytes (their number): 0
   * before. Of no meaning for all others. */
  int64_t count;
} BulkheadOutput;

typedef struct BulkheadArgument {
  const char* name;
  const char* value;
} BulkheadArgument;

/* What a stage is made with. `input` and `output` as in calls, without data; a shape's extent is -1
 * where it differs from sample to sample. */
typedef struct BulkheadStageConfig {
  uint64_t struct_bytes;             /* sizeof(BulkheadStageConfig) of the caller */
  const BulkheadArgument* arguments; /* sorted by name */
  uint64_t argument_count;
  const BulkheadInput* inputs; /* in the order of the spec */
  uint64_t input_count;
  const BulkheadOutput* outputs;
  uint64_t output_count;
} BulkheadStageConfig;

/* One sample. */
typedef struct BulkheadCall {
  uint64_t struct_bytes; /* sizeof(BulkheadCall) of the caller */
  const BulkheadInput* inputs;
  BulkheadOutput* outputs;
  /* Random bits of this sample and stage, the only ones a stage may use: the same whenever,
   * wherever and by whichever worker the sample is made. A key of a counter-based generator, say.
   */
  uint64_t random_key[2];
  /* Where the text of an error goes, ended by a zero. */
  char* error;
  uint64_t error_bytes;
} BulkheadCall;

/* The table. A function pointer that a stage does not need may be null, but for `run`. */
typedef struct BulkheadStage {
  uint64_t struct_bytes; /* sizeof(BulkheadStage) of the library */
  /* Makes the stage's state, once in each worker, before its first sample. 0: made, and *state is
   * handed to the others. Any other number: the stream ends with the text in `error`. */
  int (*create)(const BulkheadStageConfig* config, void** state, char* error, uint64_t error_bytes);
  /* Produces one sample. May be called by several threads at a time with the same state. 0: all
   * outputs are filled. Any other number: a verdict on this sample, which must be the same whenever
   * it is tried; the spec's error policy decides what follows. */
  int (*run)(void* state, BulkheadCall* call);
  /* Ends the state. A worker that is ended at once does not call it. */
  void (*destroy)(void* state);
} BulkheadStage;

/* Returned by `run`: memory was refused. The worker ends, with this stage named, and its samples
 * are done again. */
#define BULKHEAD_NO_MEMORY (-1000)

/* What the library exports, with C linkage. The table lives as long as the library. */
typedef const BulkheadStage* (*BulkheadStageFunction)(void);
#define BULKHEAD_STAGE_SYMBOL "bulkhead_stage_v1"

#if defined(__GNUC__)
#define BULKHEAD_STAGE_EXPORT __attribute__((visibility("default")))
#else
#define BULKHEAD_STAGE_EXPORT
#endif

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* BULKHEAD_STAGE_H_ */

#ifndef BULKHEAD_CLIENT_CPP_INTERNAL_BATCH_DATA_H_
#define BULKHEAD_CLIENT_CPP_INTERNAL_BATCH_DATA_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "bulkhead/batch.h"
#include "bulkhead/v1/loader.pb.h"
#include "client/cpp/internal/buffer_pool.h"
#include "client/cpp/internal/layout.h"

namespace bulkhead::client_internal {

// What every batch of a stream shares.
struct BatchContext {
  BatchLayout layout;
  v1::Cursor cursor;  // of the stream's start: fingerprints, size, quarantine
  BufferPool pool;

  BatchContext(BatchLayout layout_in, v1::Cursor cursor_in, size_t kept_blocks)
      : layout(std::move(layout_in)),
        cursor(std::move(cursor_in)),
        pool(layout.batch_bytes, kept_blocks) {}
};

// A batch's memory and facts. Returns the memory to the pool, then calls `on_release`, when
// destroyed.
struct BatchData {
  std::shared_ptr<BatchContext> context;
  v1::BatchHeader header;
  AlignedMemory memory;
  std::vector<Tensor> tensors;
  std::function<void()> on_release;

  ~BatchData() {
    if (memory) context->pool.Return(std::move(memory));
    if (on_release) on_release();
  }
};

}  // namespace bulkhead::client_internal

#endif  // BULKHEAD_CLIENT_CPP_INTERNAL_BATCH_DATA_H_

#pragma once

#include <unistd.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "bulkhead/batch.h"
#include "bulkhead/v1/loader.pb.h"
#include "client/cpp/internal/arena/arena_door.h"
#include "client/cpp/internal/batch/buffer_pool.h"
#include "client/cpp/internal/batch/layout.h"
#include "client/cpp/internal/batch/quarantine.h"

namespace bulkhead::client_internal {

// What every batch of a stream shares.
struct BatchContext {
  BatchLayout layout;
  // Of the stream's start: fingerprints, size; quarantine, its digest and code are those of the
  // next batch. Of the reader thread.
  v1::Cursor cursor;
  std::string quarantine_digest;
  BufferPool pool;
  const pid_t process = getpid();

  BatchContext(BatchLayout layout_in, v1::Cursor cursor_in, size_t kept_blocks)
      : layout(std::move(layout_in)),
        cursor(std::move(cursor_in)),
        quarantine_digest(QuarantineDigest(cursor)),
        pool(layout.batch_bytes, kept_blocks) {}
};

// A batch's memory, of its own or in a slot, and its facts. When destroyed, gives the memory back,
// then calls `on_release`. In a forked child it does neither: the other threads that might hold the
// locks are not there, and slot and credit are the parent's.
struct BatchData {
  std::shared_ptr<BatchContext> context;
  v1::BatchHeader header;
  AlignedMemory memory;
  std::unique_ptr<HeldSlot> slot;
  std::vector<Tensor> tensors;
  std::vector<std::vector<int64_t>> row_offsets;  // to which `tensors` point
  v1::Cursor cursor;                              // state after this batch
  std::function<void()> on_release;

  ~BatchData() {
    if (context == nullptr || context->process != getpid()) return;
    if (memory) context->pool.Return(std::move(memory));
    slot.reset();
    if (on_release) on_release();
  }
};

}  // namespace bulkhead::client_internal

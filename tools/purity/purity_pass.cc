#include "tools/purity/purity_pass.h"

#include <algorithm>
#include <functional>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/pipeline/stage_observer.h"
#include "server/stages/running/sample_stage.h"
#include "tools/local/local_thread.h"

namespace bulkhead::tools {
namespace {

absl::string_view BytesAt(const void* data, size_t size) {
  return {static_cast<const char*>(data), size};
}

void AddValue(const bulkhead::Value& value, Sha256& hash) {
  hash.Update(absl::StrCat(static_cast<int>(value.form), " ", value.dtype, " ", value.is_image, " ",
                           value.image_size.height, " ", value.image_size.width, " ",
                           value.channels, " ", value.channels_first, " ", value.stacked, " ",
                           value.count, " ", value.size_bytes, "\n"));
  if (value.form != bulkhead::Value::Form::kPixels) {
    hash.Update(BytesAt(value.data, value.size_bytes));
    return;
  }
  for (int y = 0; y < value.pixels.height; ++y) {
    hash.Update(BytesAt(value.pixels.row(y), value.pixels.row_bytes()));
  }
}

// Digests what each stage gives.
class Tracer final : public StageObserver {
 public:
  // `digest_batch` gives the digest of the batch as it lies.
  Tracer(std::vector<std::string> names, std::function<std::string()> digest_batch)
      : names_(std::move(names)), digest_batch_(std::move(digest_batch)) {}

  StageTrace Take() { return std::exchange(trace_, {}); }

  void BeginSample(const SampleKey&) override {}
  void NameSample(absl::string_view identity) override { trace_.record = std::string(identity); }
  void Enter(uint32_t) override {}
  void Leave(uint32_t stage, const StageValues& values) override {
    Sha256 hash;
    for (size_t i = 0; i < values.size(); ++i) AddValue(values[i], hash);
    trace_.stages.emplace_back(stage == kSource ? "source" : names_[stage - kFirstStage],
                               hash.FinishHex());
  }
  void LeaveBatchStage(uint32_t stage) override {
    trace_.stages.emplace_back(names_[stage - kFirstStage], digest_batch_());
  }
  void EndSample() override {}

 private:
  const std::vector<std::string> names_;
  const std::function<std::string()> digest_batch_;
  StageTrace trace_;
};

// One pass over a pipeline.
class Pass {
 public:
  explicit Pass(const LocalPipeline& local)
      : local_(local),
        tracer_(local.pipeline().StageNames(), [this] { return DigestOf(rows_); }),
        thread_(local),
        batch_(local.schema().batch_bytes()) {
    thread_.context().observer = &tracer_;
    for (const v1::TensorSchema& tensor : local.schema().tensors()) {
      tensors_.push_back(batch_.data() + tensor.batch_offset());
    }
  }

  absl::StatusOr<PurityTrace> Run(uint64_t samples, bool reversed) {
    const uint64_t size = local_.schema().batch_size();
    std::vector<uint64_t> firsts;
    for (uint64_t first = 0; first < samples; first += size) firsts.push_back(first);
    if (reversed) std::reverse(firsts.begin(), firsts.end());
    if (!reversed) thread_.WillProduce(0, samples);
    for (const uint64_t first : firsts) {
      BULKHEAD_RETURN_IF_ERROR(RunBatch(first, std::min(size, samples - first), reversed));
    }
    return std::move(trace_);
  }

 private:
  // Errors: those that are no sample's, and end a stream.
  absl::Status RunBatch(uint64_t first, uint64_t rows, bool reversed) {
    // What batch stages have not written yet must not be the batch's before.
    std::fill(batch_.begin(), batch_.end(), std::byte{0});
    bool whole = true;
    for (uint64_t i = 0; i < rows; ++i) {
      BULKHEAD_ASSIGN_OR_RETURN(const bool good, RunSample(first, reversed ? rows - 1 - i : i));
      whole &= good;
    }
    if (!local_.pipeline().has_batch_stages() || !whole) return absl::OkStatus();
    rows_ = rows;
    const absl::Status status =
        local_.pipeline().FinishBatch(rows, {local_.seed(), 0, first}, thread_.context(), tensors_);
    StageTrace trace = tracer_.Take();
    trace.record = absl::StrCat("the batch of positions ", first, " to ", first + rows - 1);
    if (!status.ok()) trace.error = std::string(status.message());
    trace_.batches[first] = std::move(trace);
    return status.ok() || IsSampleError(status) ? absl::OkStatus() : status;
  }

  // Whether the sample could be produced.
  absl::StatusOr<bool> RunSample(uint64_t first, uint64_t row) {
    std::vector<std::byte*> destinations = tensors_;
    for (size_t t = 0; t < destinations.size(); ++t) {
      destinations[t] += row * local_.schema().tensors(static_cast<int>(t)).sample_bytes();
    }
    const absl::Status status = thread_.ProduceSample(0, first + row, destinations);
    if (!status.ok() && !IsSampleError(status)) return status;
    StageTrace trace = tracer_.Take();
    if (!status.ok()) trace.error = std::string(status.message());
    trace_.samples[first + row] = std::move(trace);
    return status.ok();
  }

  std::string DigestOf(uint64_t rows) const {
    Sha256 hash;
    for (size_t t = 0; t < tensors_.size(); ++t) {
      hash.Update(
          BytesAt(tensors_[t], rows * local_.schema().tensors(static_cast<int>(t)).sample_bytes()));
    }
    return hash.FinishHex();
  }

  const LocalPipeline& local_;
  Tracer tracer_;
  LocalThread thread_;
  std::vector<std::byte> batch_;
  std::vector<std::byte*> tensors_;
  uint64_t rows_ = 0;  // of the batch whose stages run
  PurityTrace trace_;
};

void AppendTraces(const std::map<uint64_t, StageTrace>& traces, absl::string_view kind,
                  std::string& text) {
  for (const auto& [position, trace] : traces) {
    absl::StrAppend(&text, kind, "\t", position, "\t", absl::CEscape(trace.record), "\t",
                    absl::CEscape(trace.error));
    for (const auto& [stage, digest] : trace.stages) {
      absl::StrAppend(&text, "\t", absl::CEscape(stage), "\t", digest);
    }
    absl::StrAppend(&text, "\n");
  }
}

}  // namespace

absl::StatusOr<PurityTrace> TracePass(const LocalPipeline& local, uint64_t samples, bool reversed) {
  return Pass(local).Run(std::min(samples, local.samples_per_epoch()), reversed);
}

std::string TraceToText(const PurityTrace& trace) {
  std::string text;
  AppendTraces(trace.samples, "sample", text);
  AppendTraces(trace.batches, "batch", text);
  return text;
}

absl::StatusOr<PurityTrace> TraceFromText(absl::string_view text) {
  PurityTrace result;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, '\t');
    uint64_t position = 0;
    StageTrace trace;
    if (fields.size() < 4 || fields.size() % 2 != 0 || !absl::SimpleAtoi(fields[1], &position) ||
        !absl::CUnescape(fields[2], &trace.record) || !absl::CUnescape(fields[3], &trace.error)) {
      return absl::InternalError("a trace cannot be read back");
    }
    for (size_t i = 4; i < fields.size(); i += 2) {
      std::string stage;
      if (!absl::CUnescape(fields[i], &stage)) {
        return absl::InternalError("a trace cannot be read back");
      }
      trace.stages.emplace_back(std::move(stage), std::string(fields[i + 1]));
    }
    (fields[0] == "batch" ? result.batches : result.samples)[position] = std::move(trace);
  }
  return result;
}

}  // namespace bulkhead::tools

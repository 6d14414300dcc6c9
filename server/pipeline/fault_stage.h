#ifndef BULKHEAD_SERVER_PIPELINE_FAULT_STAGE_H_
#define BULKHEAD_SERVER_PIPELINE_FAULT_STAGE_H_

#include <cstdint>
#include <set>

#include "bulkhead/v1/pipeline.pb.h"
#include "server/pipeline/sample_stage.h"

namespace bulkhead {

// `fault`: misbehaves on the chosen records, as a broken library or a user's careless code would,
// and changes no byte. What it leaks is reachable from nowhere. Memory that the kernel refuses is
// std::bad_alloc, like any stage's.
class FaultStage : public ValueStage {
 public:
  FaultStage(StagePlace place, const v1::Fault& spec);
  absl::Status Run(Value& value, const StageContext& context) const override;
  Effect effect() const override { return Effect::kInPlace; }

 private:
  bool Chooses(const StageContext& context) const;

  v1::Fault spec_;
  std::set<uint64_t> records_;  // empty: all
  uint64_t every_;
  uint64_t bytes_ = 0;  // of the faults that take memory
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_PIPELINE_FAULT_STAGE_H_

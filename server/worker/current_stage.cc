#include "server/worker/current_stage.h"

namespace bulkhead {

thread_local constinit CurrentStage current_stage;

}  // namespace bulkhead

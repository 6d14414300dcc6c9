#ifndef BULKHEAD_SERVER_PIPELINE_GEOMETRY_STAGES_H_
#define BULKHEAD_SERVER_PIPELINE_GEOMETRY_STAGES_H_

// Stages that choose which pixels an image has, and where they go.
#include "server/pipeline/concat_stage.h"
#include "server/pipeline/crop_stages.h"
#include "server/pipeline/flip_stages.h"
#include "server/pipeline/pad_stages.h"
#include "server/pipeline/resize_stages.h"

#endif  // BULKHEAD_SERVER_PIPELINE_GEOMETRY_STAGES_H_

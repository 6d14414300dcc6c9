#pragma once

#include "tools/common/options.h"

// The subcommands of `bulkhead`, each defined in a folder of its name. Each call makes one with
// arguments of its own. The one of another form is in completion/completion_command.h.
namespace bulkhead::tools {

Command BenchCommand();  // in measure
Command CursorCommand();
Command DoctorCommand();
Command ExplainCommand();
Command HealthCommand();
Command IndexCommand();
Command InspectCommand();
Command OrderCommand();
Command PackCommand();
Command PreviewCommand();
Command QuarantineCommand();
Command RecycleCommand();
Command ReplayCommand();
Command ScanCommand();
Command SchemaCommand();
Command StatusCommand();
Command StreamCommand();
Command SynthCommand();
Command TopCommand();
Command TraceCommand();
Command ValidateCommand();

}  // namespace bulkhead::tools

// gRPC registers at its start what reads the configuration of a service mesh (xDS), what balances
// loads by it, and the credentials of clouds: nearly 4 MB that Bulkhead never uses. These stand for
// the functions that would bring them in, as in gRPC's own build without xDS. Their archive members
// are then not linked.
#include <grpc/grpc_security.h>

namespace grpc_core {

class CoreConfiguration {
 public:
  class Builder;
};

void RegisterExtraFilters(CoreConfiguration::Builder*) {}  // xDS
void FaultInjectionFilterRegister(CoreConfiguration::Builder*) {}
void RegisterFakeResolver(CoreConfiguration::Builder*) {}
void RegisterGrpcLbPolicy(CoreConfiguration::Builder*) {}
void RegisterOutlierDetectionLbPolicy(CoreConfiguration::Builder*) {}
void RegisterPriorityLbPolicy(CoreConfiguration::Builder*) {}
void RegisterRingHashLbPolicy(CoreConfiguration::Builder*) {}
void RegisterRlsLbPolicy(CoreConfiguration::Builder*) {}
void RegisterWeightedTargetLbPolicy(CoreConfiguration::Builder*) {}

}  // namespace grpc_core

// Credentials that nothing here asks for: null is what each gives when it cannot make them.
grpc_channel_credentials* grpc_alts_credentials_create(const grpc_alts_credentials_options*) {
  return nullptr;
}
grpc_server_credentials* grpc_alts_server_credentials_create(const grpc_alts_credentials_options*) {
  return nullptr;
}
grpc_call_credentials* grpc_external_account_credentials_create(const char*, const char*) {
  return nullptr;
}
grpc_channel_credentials* grpc_google_default_credentials_create(grpc_call_credentials*) {
  return nullptr;
}
grpc_call_credentials* grpc_google_iam_credentials_create(const char*, const char*, void*) {
  return nullptr;
}
grpc_call_credentials* grpc_service_account_jwt_access_credentials_create(const char*, gpr_timespec,
                                                                          void*) {
  return nullptr;
}

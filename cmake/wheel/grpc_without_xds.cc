// gRPC registers here what reads the configuration of a service mesh (xDS): 3 MB that Bulkhead
// never uses. This stands for gRPC's grpc_plugin_registry_extra.cc, as in gRPC's own build without
// xDS.
namespace grpc_core {

class CoreConfiguration {
 public:
  class Builder;
};

void RegisterExtraFilters(CoreConfiguration::Builder*) {}

}  // namespace grpc_core

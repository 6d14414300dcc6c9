#include "server/objects/credentials/credential_providers.h"

namespace bulkhead {

std::vector<CredentialProvider> S3Providers(const Environment& environment,
                                            const std::string& region, HttpClient* client) {
  return {VariableCredentials(environment, "AWS_"),
          WebIdentityCredentials(environment, region, client),
          ProfileCredentials(AwsFiles::Of(environment)), ContainerCredentials(environment, client),
          AmazonMachineCredentials(environment, client)};
}

std::vector<CredentialProvider> GsProviders(const Environment& environment, HttpClient* client) {
  return {VariableCredentials(environment, "GS_"),
          BearerFileCredentials(Variable(environment, "GS_BEARER_TOKEN_FILE")),
          GoogleMachineCredentials(environment, client)};
}

}  // namespace bulkhead

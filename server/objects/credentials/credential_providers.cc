#include "server/objects/credentials/credential_providers.h"

#include "server/objects/credentials/local_credentials.h"
#include "server/objects/credentials/machine_credentials.h"
#include "server/objects/credentials/role_credentials.h"

namespace bulkhead {

std::vector<std::unique_ptr<CredentialProvider>> S3Providers(const Environment& environment,
                                                             const std::string& region,
                                                             HttpClient* client) {
  std::vector<std::unique_ptr<CredentialProvider>> providers;
  providers.push_back(VariableCredentials(environment, "AWS_"));
  providers.push_back(WebIdentityCredentials(environment, region, client));
  providers.push_back(ProfileCredentials(AwsFiles::Of(environment)));
  providers.push_back(ContainerCredentials(environment, client));
  providers.push_back(AmazonMachineCredentials(environment, client));
  return providers;
}

std::vector<std::unique_ptr<CredentialProvider>> GsProviders(const Environment& environment,
                                                             HttpClient* client) {
  std::vector<std::unique_ptr<CredentialProvider>> providers;
  providers.push_back(VariableCredentials(environment, "GS_"));
  providers.push_back(BearerFileCredentials(Variable(environment, "GS_BEARER_TOKEN_FILE")));
  providers.push_back(GoogleMachineCredentials(environment, client));
  return providers;
}

}  // namespace bulkhead

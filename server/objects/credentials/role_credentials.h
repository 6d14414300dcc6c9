#pragma once

#include <memory>
#include <string>

#include "server/objects/aws_file.h"
#include "server/objects/credentials/credentials.h"
#include "server/objects/curl.h"

namespace bulkhead {

// Providers that ask a service which this process's variables name (credential_providers.h).

// A role that STS gives for the token in AWS_WEB_IDENTITY_TOKEN_FILE.
std::unique_ptr<CredentialProvider> WebIdentityCredentials(const Environment& environment,
                                                           const std::string& region,
                                                           HttpClient* client);
// The container's, of AWS_CONTAINER_CREDENTIALS_FULL_URI or _RELATIVE_URI.
std::unique_ptr<CredentialProvider> ContainerCredentials(const Environment& environment,
                                                         HttpClient* client);

}  // namespace bulkhead

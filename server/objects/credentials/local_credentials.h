#pragma once

#include <memory>
#include <string>

#include "server/objects/aws_file.h"
#include "server/objects/credentials/credentials.h"

namespace bulkhead {

// Providers that look at variables and files of this process (credential_providers.h).

// Keys in the variables `prefix`ACCESS_KEY_ID and the like.
std::unique_ptr<CredentialProvider> VariableCredentials(const Environment& environment,
                                                        const std::string& prefix);
// Keys in the profile of ~/.aws/credentials and ~/.aws/config.
std::unique_ptr<CredentialProvider> ProfileCredentials(const AwsFiles& files);
// A bearer token in the file at `path`; an empty path is none.
std::unique_ptr<CredentialProvider> BearerFileCredentials(const std::string& path);

}  // namespace bulkhead

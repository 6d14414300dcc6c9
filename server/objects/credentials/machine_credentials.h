#pragma once

#include <memory>

#include "server/objects/aws_file.h"
#include "server/objects/credentials/credentials.h"
#include "server/objects/curl.h"

namespace bulkhead {

// Providers that ask the metadata service of the machine (credential_providers.h). One that does
// not answer in a second is none.

std::unique_ptr<CredentialProvider> AmazonMachineCredentials(const Environment& environment,
                                                             HttpClient* client);
std::unique_ptr<CredentialProvider> GoogleMachineCredentials(const Environment& environment,
                                                             HttpClient* client);

}  // namespace bulkhead

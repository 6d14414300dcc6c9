#pragma once

#include <string>
#include <vector>

#include "server/objects/aws_file.h"
#include "server/objects/credentials/credentials.h"
#include "server/objects/curl.h"

namespace bulkhead {

// The places where credentials are looked for, in the order of other clients of S3:
//
// 1. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN.
// 2. AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN: a role that STS (AWS_ENDPOINT_URL_STS, else
//    Amazon's in `region`) gives for the token; AWS_ROLE_SESSION_NAME.
// 3. The profile in ~/.aws/credentials, else in ~/.aws/config (aws_file.h). They are read again
//    when they change. A profile whose credentials come in another way is an error.
// 4. AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI, with AWS_CONTAINER_AUTHORIZATION_TOKEN or
//    _TOKEN_FILE: the container's.
// 5. The machine's own, from its metadata service (IMDSv2), unless AWS_EC2_METADATA_DISABLED=true;
//    AWS_EC2_METADATA_SERVICE_ENDPOINT. A service that does not answer in one second is none.
//
// `client` is asked for 2, 4 and 5, and outlives no chain.
std::vector<CredentialProvider> S3Providers(const Environment& environment,
                                            const std::string& region, HttpClient* client);

// Those of Google's store: GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY (HMAC keys); the access token
// in the file that GS_BEARER_TOKEN_FILE names, which is read again when it changes; the machine's
// own, from its metadata service (GCE_METADATA_HOST), if it answers in one second.
std::vector<CredentialProvider> GsProviders(const Environment& environment, HttpClient* client);

// The places themselves. Those of this process (local_credentials.cc): keys in the variables
// `prefix`ACCESS_KEY_ID and the like; in the profile of ~/.aws/credentials and ~/.aws/config; a
// bearer token in the file at `path`, of which an empty one is none.
CredentialProvider VariableCredentials(const Environment& environment, const std::string& prefix);
CredentialProvider ProfileCredentials(const AwsFiles& files);
CredentialProvider BearerFileCredentials(const std::string& path);

// Those of a service which this process's variables name (role_credentials.cc): a role that STS
// gives for the token in AWS_WEB_IDENTITY_TOKEN_FILE; the container's.
CredentialProvider WebIdentityCredentials(const Environment& environment, const std::string& region,
                                          HttpClient* client);
CredentialProvider ContainerCredentials(const Environment& environment, HttpClient* client);

// Those of the machine's metadata service (machine_credentials.cc).
CredentialProvider AmazonMachineCredentials(const Environment& environment, HttpClient* client);
CredentialProvider GoogleMachineCredentials(const Environment& environment, HttpClient* client);

}  // namespace bulkhead

#!/bin/bash
# Checks the manifests as a cluster would: puts the overlay together with each component and with all of them (kustomize),
# validates it against Kubernetes' own schemas (kubeconform), lets kube-score look for what is usually missing, and asks
# the library of Pod Security's admission whether the pods are `restricted`. Then it plants mistakes, which must be found.
#
# The tools are built from their Go modules, at the versions below, which takes some minutes once. Exit code 77 without Go.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$HERE/../../scripts/common.sh"

readonly FOLDER=$ROOT/build/kubernetes
readonly GO_VERSION=1.26  # check/go.mod
readonly TOOLS=(
  sigs.k8s.io/kustomize/kustomize/v5@v5.7.1
  github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0
  github.com/zegl/kube-score/cmd/kube-score@v1.20.0
)
readonly KUBERNETES=k8s.io/kubernetes@v1.37.2 OPERATOR=github.com/prometheus-operator/prometheus-operator@v0.85.0
readonly CERT_MANAGER=github.com/cert-manager/cert-manager@v1.21.2
readonly COMPONENTS=(cache-claim network-policy object-store pod-monitor python)
# A thread that waits for its CPU quota holds everybody up, so CPUs are not limited; a cluster pulls an image with a version once.
readonly SCORING=(
  --ignore-container-cpu-limit --ignore-test container-image-pull-policy
  --enable-optional-test container-seccomp-profile --enable-optional-test container-ports-check
  --enable-optional-test container-memory-requests-equal-limits --enable-optional-test container-ephemeral-storage-request-equals-limit
)

if ! command -v go >/dev/null; then
  echo "kubernetes: skipped: there is no Go toolchain; its tools need Go $GO_VERSION or later, which Debian 12 does not have"
  exit 77
fi
found=$(go env GOVERSION)
if ! printf '%s\n' "$GO_VERSION" "${found#go}" | sort -V -C; then
  echo "kubernetes: skipped: this is $found, and the tools need Go $GO_VERSION or later"
  exit 77
fi
export GOBIN=$FOLDER/bin GOFLAGS=-buildvcs=false
PATH=$GOBIN:$PATH

# module_folder MODULE@VERSION - where its files are.
module_folder() { go mod download -json "$1" | python3 -c 'import json, sys; print(json.load(sys.stdin)["Dir"])'; }

# rendered NAME OVERLAY COMPONENT… - the manifests of an overlay with these components, in a file whose name it prints.
rendered() {
  local name=$1 base=$2 overlay=$FOLDER/overlays/$1 component
  shift 2
  mkdir -p "$overlay"
  {
    printf 'apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [../../../../deploy/kubernetes/%s]\ncomponents:\n' "$base"
    for component; do echo "  - ../../../../deploy/kubernetes/$component"; done
  } >"$overlay/kustomization.yaml"
  kustomize build "$overlay" >"$FOLDER/$name.yaml"
  echo "$FOLDER/$name.yaml"
}

valid() { kubeconform -strict -summary -schema-location "$FOLDER/schemas/{{.ResourceKind}}{{.KindSuffix}}.json" "$1"; }
restricted() { "$GOBIN/check" restricted <"$1"; }
scored() {
  kube-score score --output-format ci --kubernetes-version v1.33 "${SCORING[@]}" "$1" | tee "$FOLDER/score"
  ! grep -qE '^\[(CRITICAL|WARNING)\]' "$FOLDER/score"
}

# planted CHECK WORDS SED - a mistake, by sed in the manifests $correct, that CHECK must refuse with these words.
planted() {
  sed "$3" "$correct" >"$FOLDER/planted.yaml"
  if "$1" "$FOLDER/planted.yaml" >"$FOLDER/planted.log" 2>&1 || ! grep -F "$2" "$FOLDER/planted.log"; then
    echo "kubernetes: $1 does not notice the mistake that '$3' plants:" >&2
    cat "$FOLDER/planted.log" >&2
    return 1
  fi
}

mkdir -p "$FOLDER"
for tool in "${TOOLS[@]}"; do go install "$tool"; done
(cd "$HERE/check" && go install .)
kubernetes=$(module_folder "$KUBERNETES")
operator=$(module_folder "$OPERATOR")
cert_manager=$(module_folder "$CERT_MANAGER")
"$HERE/check/schemas.py" "$FOLDER/schemas" "$kubernetes/api/openapi-spec/swagger.json" \
  "$operator/example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml" \
  "$cert_manager/deploy/crds/cert-manager.io_certificates.yaml" "$cert_manager/deploy/crds/cert-manager.io_issuers.yaml"

# look WHAT FILE
look() {
  echo "kubernetes: $1"
  valid "$2"
  restricted "$2"
}
kustomize build "$HERE/base" >"$FOLDER/base.yaml"
look 'the Job alone' "$FOLDER/base.yaml"
for component in "${COMPONENTS[@]}"; do look "with the sidecar, and $component" "$(rendered "$component" sidecar "$component")"; done
everything=$(rendered everything sidecar "${COMPONENTS[@]:1}")  # object-store has the claim
look 'with the sidecar, and all components' "$everything"
scored "$everything"
fleet=$(rendered fleet overlays/fleet)
look 'a fleet' "$fleet"
scored "$fleet"
fleet_caches=$(rendered fleet-caches overlays/fleet fleet-caches)
look 'a fleet, and a cache for each replica' "$fleet_caches"
scored "$fleet_caches"
fleet_store=$(rendered fleet-object-store overlays/fleet fleet-object-store)
look 'a fleet, and data in an object store' "$fleet_store"
scored "$fleet_store"
fleet_python=$(rendered fleet-python overlays/fleet fleet-python)
look 'a fleet, and stages in Python' "$fleet_python"
scored "$fleet_python"
for job in pack index; do
  kustomize build "$HERE/shard-jobs/$job" >"$FOLDER/$job.yaml"
  look "shards by the command \`$job\`" "$FOLDER/$job.yaml"
  scored "$FOLDER/$job.yaml"
done

echo "kubernetes: planted mistakes"
correct=$everything
planted restricted 'container "trainer" must set securityContext.allowPrivilegeEscalation=false' '0,/allowPrivilegeEscalation: false/s//allowPrivilegeEscalation: true/'
planted restricted 'must set securityContext.seccompProfile.type' '/seccompProfile:/,/type:/d'
planted restricted 'must set securityContext.capabilities.drop=["ALL"]' '0,/- ALL/s//- CHOWN/'
planted valid "additional properties 'terminationGraceSeconds' not allowed" 's/terminationGracePeriodSeconds:/terminationGraceSeconds:/'
planted valid 'got string, want integer' 's/containerPort: 9464/containerPort: metrics/'
planted valid "additional properties 'podMetricEndpoints' not allowed" 's/podMetricsEndpoints:/podMetricEndpoints:/'
planted scored 'does not have a matching' 's/^kind: NetworkPolicy/kind: ConfigMap/'
planted scored 'Ephemeral Storage' '/ephemeral-storage:/d'
correct=$fleet
planted restricted 'container "bulkhead" must set securityContext.allowPrivilegeEscalation=false' '0,/allowPrivilegeEscalation: false/s//allowPrivilegeEscalation: true/'
planted valid "additional properties 'dnsName' not allowed" 's/dnsNames:/dnsName:/'
planted valid "additional properties 'selfSign' not allowed" 's/selfSigned:/selfSign:/'
planted valid "additional properties 'certificate' not allowed" 's/^      cert:/      certificate:/'
planted valid "additional properties 'topologyKeys' not allowed" 's/topologyKey:/topologyKeys:/'
planted valid "additional properties 'averageValues' not allowed" 's/averageValue:/averageValues:/'
planted scored 'PodDisruptionBudget' 's/^kind: PodDisruptionBudget/kind: ConfigMap/'
correct=$FOLDER/pack.yaml
planted valid "additional properties 'completionsMode' not allowed" 's/completionMode:/completionsMode:/'
echo "kubernetes: passed"

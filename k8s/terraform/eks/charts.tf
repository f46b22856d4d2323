# KEDA sizes pools, Prometheus watches, and our chart runs on them.

resource "helm_release" "keda" {
  name             = "keda"
  namespace        = "keda"
  create_namespace = true
  repository       = "https://kedacore.github.io/charts"
  chart            = "keda"
  version          = var.chart_versions.keda

  depends_on = [aws_eks_addon.coredns]
}

resource "helm_release" "prometheus" {
  name             = "prometheus"
  namespace        = "monitoring"
  create_namespace = true
  repository       = "https://prometheus-community.github.io/helm-charts"
  chart            = "kube-prometheus-stack"
  version          = var.chart_versions.prometheus

  # Monitors of every release, not only of its own.
  values = [yamlencode({
    prometheus = {
      prometheusSpec = {
        serviceMonitorSelectorNilUsesHelmValues = false
        podMonitorSelectorNilUsesHelmValues     = false
        ruleSelectorNilUsesHelmValues           = false
      }
    }
  })]

  depends_on = [aws_eks_addon.coredns]
}

resource "helm_release" "sie" {
  count = var.install_chart ? 1 : 0

  name             = "sie"
  namespace        = var.namespace
  create_namespace = true
  chart            = "${path.module}/../../helm/sie-mcp"
  # Gateways wait for the Secret of keys, which is not made here: keys do not belong into a state.
  wait = false

  values = concat([module.plan.chart_values], var.values)

  depends_on = [helm_release.keda, helm_release.prometheus]
}

# What the cloud does not bring by itself: more nodes and none, GPUs as a resource, CPU figures.

resource "helm_release" "autoscaler" {
  name       = "cluster-autoscaler"
  namespace  = "kube-system"
  repository = "https://kubernetes.github.io/autoscaler"
  chart      = "cluster-autoscaler"
  version    = var.chart_versions.autoscaler

  values = [yamlencode({
    awsRegion     = var.region
    autoDiscovery = { clusterName = aws_eks_cluster.this.name }
    rbac          = { serviceAccount = { name = local.identities.autoscaler.account } }
    extraArgs     = { "scale-down-unneeded-time" = "10m", "expander" = "least-waste" }
  })]

  depends_on = [aws_eks_addon.coredns, aws_eks_pod_identity_association.pods]
}

resource "helm_release" "gpu_plugin" {
  name             = "nvidia-device-plugin"
  namespace        = "nvidia-device-plugin"
  create_namespace = true
  repository       = "https://nvidia.github.io/k8s-device-plugin"
  chart            = "nvidia-device-plugin"
  version          = var.chart_versions.gpu_plugin

  # Nodes have the label from their group.
  values = [yamlencode({
    affinity = {
      nodeAffinity = {
        requiredDuringSchedulingIgnoredDuringExecution = {
          nodeSelectorTerms = [{ matchExpressions = [{ key = "nvidia.com/gpu.product", operator = "Exists" }] }]
        }
      }
    }
  })]

  depends_on = [aws_eks_addon.coredns]
}

resource "helm_release" "metrics" {
  name       = "metrics-server"
  namespace  = "kube-system"
  repository = "https://kubernetes-sigs.github.io/metrics-server"
  chart      = "metrics-server"
  version    = var.chart_versions.metrics

  depends_on = [aws_eks_addon.coredns]
}

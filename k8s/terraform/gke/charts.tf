# KEDA sizes pools, Prometheus watches, and our chart runs on them.

resource "helm_release" "keda" {
  name             = "keda"
  namespace        = "keda"
  create_namespace = true
  repository       = "https://kedacore.github.io/charts"
  chart            = "keda"
  version          = var.chart_versions.keda

  depends_on = [google_container_node_pool.system]
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

  depends_on = [google_container_node_pool.system]
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

output "node_groups" {
  description = "Node groups by the name of their pool."
  value       = local.node_groups
}

output "chart_values" {
  description = "What the chart is told, as YAML. The chart's own pool goes where it is not named here."
  value = yamlencode({
    cloud       = var.cloud
    defaultPool = var.default_pool
    catalogue   = { pools = var.models }
    pools       = merge({ cpu = null }, local.chart_pools)
  })
}

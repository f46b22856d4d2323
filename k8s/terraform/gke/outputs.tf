output "kubeconfig_command" {
  description = "Gives kubectl and helm the cluster."
  value       = "gcloud container clusters get-credentials ${var.name} --region ${var.region} --project ${var.project}"
}

output "bucket" {
  description = "For models and indexes, as gs://."
  value       = "gs://${google_storage_bucket.models.name}"
}

output "chart_values" {
  description = "What the chart is told of pools, for `helm upgrade --values`."
  value       = module.plan.chart_values
}

output "node_groups" {
  description = "Node groups by the name of their pool."
  value       = module.plan.node_groups
}

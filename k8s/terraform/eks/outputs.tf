output "kubeconfig_command" {
  description = "Gives kubectl and helm the cluster."
  value       = "aws eks update-kubeconfig --name ${var.name} --region ${var.region}"
}

output "bucket" {
  description = "For models and indexes, as s3://."
  value       = "s3://${aws_s3_bucket.models.bucket}"
}

output "chart_values" {
  description = "What the chart is told of pools, for `helm upgrade --values`."
  value       = module.plan.chart_values
}

output "node_groups" {
  description = "Node groups by the name of their pool."
  value       = module.plan.node_groups
}

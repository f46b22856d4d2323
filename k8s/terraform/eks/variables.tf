variable "region" {
  description = "Where the cluster is."
  type        = string
  default     = "eu-central-1"
}

variable "zones" {
  description = "Zones of the region, two or three; GPUs must be had in them."
  type        = list(string)
  default     = ["eu-central-1a", "eu-central-1b"]

  validation {
    condition     = length(var.zones) >= 2 && length(var.zones) <= 3 && length(distinct(var.zones)) == length(var.zones)
    error_message = "Name two or three zones."
  }
}

variable "name" {
  description = "Of the cluster, and a part of all other names."
  type        = string
  default     = "sie"

  validation {
    condition     = can(regex("^[a-z]([-a-z0-9]{0,18}[a-z0-9])?$", var.name))
    error_message = "name has at most 20 of a-z, 0-9 and -, and begins with a letter."
  }
}

variable "kubernetes_version" {
  description = "Of the cluster; the chart wants 1.30 or later."
  type        = string
  default     = "1.34"

  validation {
    condition     = can(regex("^1\\.(3[0-9]|[4-9][0-9])$", var.kubernetes_version))
    error_message = "kubernetes_version is 1.30 or later."
  }
}

variable "pools" {
  description = "Pools of workers by name; modules/plan/variables.tf says what each has."
  type = map(object({
    profile   = string
    spot      = optional(bool, false)
    min_nodes = optional(number, 0)
    max_nodes = optional(number, 2)
    machine   = optional(string)
    gpus      = optional(number)
    disk_gb   = optional(number)
    preload   = optional(list(string), [])
  }))
  default = {
    cpu     = { profile = "cpu", min_nodes = 1, max_nodes = 3 }
    l4-spot = { profile = "l4", spot = true, max_nodes = 10 }
  }
}

variable "default_pool" {
  description = "The pool of models that are not given to another; empty: the first by name."
  type        = string
  default     = "cpu"
}

variable "models" {
  description = "Pools of a model by its name, first choice first. A change touches no node."
  type        = map(list(string))
  default     = {}
}

variable "values" {
  description = "Further values of the chart, YAML each; the last one wins."
  type        = list(string)
  default     = []
}

variable "namespace" {
  description = "Where the chart is installed."
  type        = string
  default     = "sie"

  validation {
    condition     = can(regex("^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$", var.namespace))
    error_message = "namespace is a name as Kubernetes takes it."
  }
}

variable "install_chart" {
  description = "False: only the cluster and what it needs; the chart is installed by hand."
  type        = bool
  default     = true
}

variable "chart_versions" {
  description = "Versions of the charts beside ours."
  type = object({
    keda       = optional(string, "2.20.1")
    prometheus = optional(string, "75.15.1")
    autoscaler = optional(string, "9.46.6")
    gpu_plugin = optional(string, "0.17.1")
    metrics    = optional(string, "3.12.2")
  })
  default = {}
}

variable "api_cidrs" {
  description = "Who may reach the API of the cluster, as networks."
  type        = list(string)

  validation {
    condition     = length(var.api_cidrs) > 0 && alltrue([for cidr in var.api_cidrs : can(cidrhost(cidr, 0)) && cidr != "0.0.0.0/0"])
    error_message = "Name at least one network, and not everybody: [\"203.0.113.7/32\"]."
  }
}

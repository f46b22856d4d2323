variable "cloud" {
  description = "Where nodes come from: \"gke\" or \"eks\"."
  type        = string

  validation {
    condition     = contains(["gke", "eks"], var.cloud)
    error_message = "cloud is gke or eks."
  }
}

variable "pools" {
  description = <<-EOT
    Pools of workers by name. `profile` is one of the chart's: cpu, l4, a100, h100. A node group each,
    with as many nodes as workers need: none while a pool sleeps. `machine` and `disk_gb` come before
    what the profile has; a machine of one's own says with `gpus` how many it has.
  EOT
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

  validation {
    condition     = length(var.pools) >= 1 && length(var.pools) <= 64
    error_message = "Give 1 to 64 pools."
  }

  validation {
    condition     = alltrue([for name in keys(var.pools) : can(regex("^[a-z]([-a-z0-9]{0,18}[a-z0-9])?$", name))])
    error_message = "A pool's name has at most 20 of a-z, 0-9 and -, begins with a letter and does not end with -."
  }

  validation {
    condition     = alltrue([for pool in values(var.pools) : contains(["cpu", "l4", "a100", "h100"], pool.profile)])
    error_message = "A pool's profile is cpu, l4, a100 or h100."
  }

  validation {
    condition = alltrue([
      for pool in values(var.pools) :
      pool.min_nodes >= 0 && pool.max_nodes >= 1 && pool.min_nodes <= pool.max_nodes && pool.max_nodes <= 100
      && floor(pool.min_nodes) == pool.min_nodes && floor(pool.max_nodes) == pool.max_nodes
    ])
    error_message = "A pool has min_nodes of 0 to max_nodes, and max_nodes of 1 to 100, whole numbers."
  }

  validation {
    condition = alltrue([
      for pool in values(var.pools) : pool.machine == null || pool.profile == "cpu" || pool.gpus != null
    ])
    error_message = "A GPU pool with a machine of its own says with gpus how many it has."
  }

  validation {
    condition     = alltrue([for pool in values(var.pools) : pool.gpus == null ? true : pool.gpus >= 1 && pool.gpus <= 16])
    error_message = "gpus is 1 to 16."
  }

  validation {
    condition = var.cloud != "gke" || alltrue([
      for pool in values(var.pools) : pool.profile != "h100" || pool.spot || pool.machine != null
    ])
    error_message = "Google gives a machine of one H100 as spot only: set spot, or a larger machine with gpus."
  }
}

variable "default_pool" {
  description = "The pool of models that are not given to another; empty: the first by name."
  type        = string
  default     = ""

  validation {
    condition     = var.default_pool == "" || contains(keys(var.pools), var.default_pool)
    error_message = "default_pool is none of pools."
  }
}

variable "models" {
  description = "Pools of a model by its name, first choice first."
  type        = map(list(string))
  default     = {}

  validation {
    condition     = alltrue(flatten([for names in values(var.models) : [for name in names : contains(keys(var.pools), name)]]))
    error_message = "models names a pool that is none of pools."
  }
}

/** Which role somebody has by what an identity provider says of them, as `--oidc-role` has it. Pure. */
import { ROLES, type Role } from './roles.ts'

export interface ClaimRole {
  /** What a claim must hold, letter by letter. */
  value: string
  role: Role
  /** Of a member: id or name of the team that keys of their own are of. */
  team: string | null
}

/** Reads `admins=owner,research=member:research`: the first whose value somebody has decides. Null for what is none. */
export function toClaimRoles(text: string): ClaimRole[] | null {
  const read = text.split(',').map((item) => toClaimRole(item.trim()))
  const roles = read.filter((one) => one !== null)
  const isClear = roles.length === read.length && new Set(roles.map(({ value }) => value)).size === roles.length
  return isClear ? roles : null
}

/** The value may have a `=` of its own, as names in directories do. */
function toClaimRole(item: string): ClaimRole | null {
  const [, value = '', word = '', team = null] = /^(.+)=([a-z]+)(?::([^=]+))?$/.exec(item) ?? []
  const role = ROLES.find((one) => one === word)
  return role === undefined || (role === 'member') !== (team !== null) ? null : { value, role, team }
}

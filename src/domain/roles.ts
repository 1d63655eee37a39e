/**
 * What those who sign in may do, and how they sign in. Pure.
 */

/**
 * An owner does everything, upstreams, credentials and other administrators included; an editor changes keys, teams and the
 * catalogue; a viewer reads; a member sees and makes keys of their own alone, within what their team allows.
 */
export const ROLES = ['owner', 'editor', 'viewer', 'member'] as const
export type Role = (typeof ROLES)[number]

/** What a token for scripts may do: `write` is an editor's right, `read` a viewer's. */
export const TOKEN_SCOPES = ['read', 'write'] as const
export type TokenScope = (typeof TOKEN_SCOPES)[number]

/** How people sign in: by a name and a password, or through an identity provider (OpenID Connect). */
export const SIGN_IN_METHODS = ['password', 'oidc'] as const
export type SignInMethod = (typeof SIGN_IN_METHODS)[number]

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

/** Roles, token scopes, and sign-in methods. */

/** owner: everything; editor: keys, teams, and the catalog; viewer: read only; member: their own keys, within their team's limits. */
export const ROLES = ['owner', 'editor', 'viewer', 'member'] as const
export type Role = (typeof ROLES)[number]

/** `write`: an editor's permissions; `read`: a viewer's. */
export const TOKEN_SCOPES = ['read', 'write'] as const
export type TokenScope = (typeof TOKEN_SCOPES)[number]

export const SIGN_IN_METHODS = ['password', 'oidc'] as const
export type SignInMethod = (typeof SIGN_IN_METHODS)[number]

export interface ClaimRole {
  /** Exact value. */
  value: string
  role: Role
  /** ID or name of a member's team. */
  team: string | null
}

/** `admins=owner,research=member:research`; the first match decides. */
export function toClaimRoles(text: string): ClaimRole[] | null {
  const read = text.split(',').map((item) => toClaimRole(item.trim()))
  const roles = read.filter((one) => one !== null)
  const isClear = roles.length === read.length && new Set(roles.map(({ value }) => value)).size === roles.length
  return isClear ? roles : null
}

/** The value may contain `=`. */
function toClaimRole(item: string): ClaimRole | null {
  const [, value = '', word = '', team = null] = /^(.+)=([a-z]+)(?::([^=]+))?$/.exec(item) ?? []
  const role = ROLES.find((one) => one === word)
  return role === undefined || (role === 'member') !== (team !== null) ? null : { value, role, team }
}

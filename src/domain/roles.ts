/** What those who sign in may do. */

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
export const WAYS = ['password', 'oidc'] as const
export type Way = (typeof WAYS)[number]

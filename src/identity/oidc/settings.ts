/** What sign-in through an OpenID Connect provider is set up with, put together from the settings that say it. Pure. */
import { type ServeConfig, toVariableName } from '../../config.ts'
import type { ClaimRole, Way } from '../../domain/roles.ts'
import { ServiceError } from '../../domain/service-error.ts'

export interface OidcSettings {
  issuer: string
  clientId: string
  clientSecret: string
  /** The claim that says what somebody is, such as `groups`, or a path to it, such as `realm_access.roles`. */
  claim: string
  /** The first whose value somebody has decides. */
  roles: readonly ClaimRole[]
}

type Given = Pick<
  ServeConfig,
  'oidcIssuer' | 'oidcClientId' | 'oidcClientSecret' | 'oidcClaim' | 'oidcRoles' | 'passwordSignIn'
>

/** Null where nobody signs in so. Throws `bad_config` where a part is missing, or nobody could sign in at all. */
export function toOidcSettings(given: Given): OidcSettings | null {
  const { oidcIssuer: issuer, oidcClientId: clientId, oidcClientSecret: clientSecret, oidcRoles: roles } = given
  if (issuer === null && clientId === null && roles.length === 0) {
    if (given.passwordSignIn) return null
    throw toBadConfig(['--password-sign-in is off and there is no --oidc-issuer: nobody could sign in.'])
  }
  const problems: string[] = []
  if (issuer === null) problems.push('--oidc-issuer is missing: the URL of the identity provider.')
  if (clientId === null) problems.push('--oidc-client-id is missing: what the identity provider calls this server.')
  if (clientSecret === null)
    problems.push(`${SECRET_VARIABLE} is missing in the environment: the secret that goes with --oidc-client-id.`)
  if (roles.length === 0)
    problems.push('--oidc-role is missing: without one, nobody may sign in. Such as admins=owner.')
  if (issuer === null || clientId === null || clientSecret === null || roles.length === 0) throw toBadConfig(problems)
  return { issuer, clientId, clientSecret, claim: given.oidcClaim, roles }
}

const SECRET_VARIABLE = toVariableName('oidc-client-secret')

const toBadConfig = (problems: readonly string[]) =>
  new ServiceError({ kind: 'bad_config', problems }, problems.join('\n'))

export const toWays = ({ passwordSignIn }: Given, oidc: OidcSettings | null): Way[] => [
  ...(passwordSignIn ? (['password'] as const) : []),
  ...(oidc === null ? [] : (['oidc'] as const)),
]

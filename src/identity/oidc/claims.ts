/** Who somebody is here, by what their identity provider says of them. Pure. */
import type { ClaimRole } from '../../domain/roles.ts'
import type { OidcSettings } from './settings.ts'

/** What an ID token holds (OpenID Connect Core 1.0, section 2), its issuer, audience, times and signature being checked. */
export type Claims = Readonly<Record<string, unknown>> & { iss: string; sub: string }

export interface Claimed {
  /** Issuer and subject, with a space between: neither has one. */
  subject: string
  /** What they would be called here; null where the provider says nothing that could be. */
  name: string | null
  /** Whether the provider has made sure that the name is theirs, as it is an address of mail. */
  isNameProved: boolean
  /** Null where none of the values that have a role is among theirs. */
  role: ClaimRole | null
  /** Whether the provider says anything of what they are. */
  isClaimThere: boolean
}

export function toClaimed(claims: Claims, { claim, roles }: Pick<OidcSettings, 'claim' | 'roles'>): Claimed {
  const { iss, sub, email, email_verified: isProved, preferred_username: username } = claims
  const said = findClaim(claims, claim)
  const values = [said].flat()
  const isNameProved = typeof email === 'string' && isProved === true
  return {
    subject: `${iss} ${sub}`,
    name: isNameProved ? email : typeof username === 'string' ? username : null,
    isNameProved,
    role: roles.find(({ value }) => values.includes(value)) ?? null,
    isClaimThere: said !== undefined,
  }
}

/** A claim of that very name (some are URLs), or else what is within others, as `realm_access.roles` is. */
export function findClaim(claims: Readonly<Record<string, unknown>>, claim: string): unknown {
  if (Object.hasOwn(claims, claim)) return claims[claim]
  let found: unknown = claims
  for (const name of claim.split('.')) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, name)) return undefined
    found = (found as Record<string, unknown>)[name]
  }
  return found
}

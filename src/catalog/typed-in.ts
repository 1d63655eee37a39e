/**
 * Credentials that owners type in for an upstream: which can be one, and how it is told that there is one. What they are, nobody is
 * told. Called by `edit-upstream.ts`. Pure.
 */

import { isBuiltIn } from '../domain/dialects.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { SealedCredential, UpstreamRow } from '../store/catalog-rows.ts'
import { isReference } from '../store/credential-place.ts'
import { CLEARED } from '../store/vault.ts'

/** What goes into a header as it is (RFC 9110, section 5.5). */
const CREDENTIAL = /^[\x21-\x7e]{1,4000}$/

/** Throws `invalid` for what is none. */
export function requireCredentials(upstream: UpstreamRow, given: readonly string[] = []): void {
  if (given.length > 0 && isBuiltIn(upstream)) throw invalid('the demo needs none.')
  for (const text of given) {
    if (isReference(text))
      throw invalid('variables and files of the server are named in its catalogue file alone: type the credential in.')
    if (!CREDENTIAL.test(text)) throw invalid('a credential has 1 to 4000 letters, digits and signs, and no spaces.')
  }
}

const invalid = (rule: string) =>
  new ServiceError({ kind: 'invalid', field: 'api_key' }, `The field api_key is invalid: ${rule}`)

/** As it is told of; a reference is told as what it is. */
const TYPED_IN = 'typed in'

export const toTold = ({ length }: readonly unknown[]) => (length === 1 ? TYPED_IN : `${length} ${TYPED_IN}`)

/** What becomes of the credential, and how that is told; null where nothing does. */
export function toCredential(
  { id, apiKeyRef, origin }: UpstreamRow,
  held: readonly SealedCredential[],
  isMoving: boolean,
  sealed: readonly string[] | undefined,
) {
  const isCleared = held.some((one) => one.sealed === CLEARED)
  const had = apiKeyRef ?? (held.length === 0 ? undefined : isCleared ? 'to be typed in' : toTold(held))
  const before = had === undefined ? {} : { api_key: had }
  const tell = (after: object, write: { id: string; sealed: readonly string[] }[]) => ({
    aside: { name: `upstreams.${id}`, origin, before, after: { ...after } },
    write,
  })
  if (sealed?.length === 0) return had === undefined ? null : tell({}, [{ id, sealed }])
  if (sealed !== undefined) {
    const told = toTold(sealed)
    return tell({ api_key: had === told ? `${told} anew` : told }, [{ id, sealed }])
  }
  if (!isMoving || had === undefined) return null
  return tell({ api_key: 'to be typed in' }, [{ id, sealed: [CLEARED] }])
}

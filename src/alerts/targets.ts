/**
 * Alert targets: where alerts are sent. Their URLs are secrets, since anyone who knows one can post there. So URLs are
 * encrypted, and only their scheme and host are shown.
 */
import type { LookUp } from '../catalog/remote.ts'
import { explainAddress, hostOf } from '../catalog/remote.ts'
import type { AlertFormat, AlertTopic } from '../domain/alerts.ts'
import { toDifference } from '../domain/changes.ts'
import { mintId } from '../domain/id.ts'
import { parseJson } from '../domain/json.ts'
import { ServiceError } from '../domain/service-error.ts'
import { isName, NAME_RULE } from '../keys/definition.ts'
import { isNamed } from '../keys/find.ts'
import type { AlertStore, StoredTarget } from '../store/alert-store.ts'
import type { Actor } from '../store/config-store.ts'
import type { Vault } from '../store/vault.ts'

export interface TargetOptions {
  url: string
  /** Default: the URL's host. */
  name?: string | null | undefined
  /** Default: `slack` for Slack's own host, else `json`. */
  format?: AlertFormat | null | undefined
  /** Default: all. */
  topics?: readonly AlertTopic[] | null | undefined
}

/** What is encrypted. */
export interface TargetSecrets {
  url: string
  /** Signs JSON. */
  secret: string | null
}

export interface TargetDeps {
  alerts: AlertStore
  vault: Pick<Vault, 'seal' | 'requireCurrent'>
  /** null: any address, for the operator's commands. */
  lookUp: LookUp | null
}

/** All targets are checked every few seconds. */
const MAX_TARGETS = 20
const MAX_URL = 2_000
const SECRET_BYTES = 32

/** The secret cannot be shown again. Throws `invalid`, `alert_exists`, and what the vault throws. */
export async function addTarget(
  { alerts, vault, lookUp }: TargetDeps,
  { url: typed, name, format, topics }: TargetOptions,
  by: Actor,
): Promise<{ target: StoredTarget; secret: string | null }> {
  const url = requireUrl(typed.trim())
  if (topics?.length === 0) throw invalid('topics', 'Choose at least one topic.')
  await requireReceiver(url, lookUp)
  const id = mintId(by.nowMs)
  const made: Omit<StoredTarget, 'sealed'> = {
    ...{ id, name: name ?? url.hostname, format: format ?? (url.hostname === SLACK ? 'slack' : 'json') },
    ...{ origin: url.origin, topics: topics ? [...new Set(topics)] : null, createdMs: by.nowMs },
  }
  if (!isName(made.name)) throw invalid('name', `The name of a target ${NAME_RULE}.`)
  const secret = made.format === 'json' ? mintSecret() : null
  const secrets: TargetSecrets = { url: url.href, secret }
  const target = { ...made, sealed: await vault.seal(JSON.stringify(secrets), { alert: id }) }
  return alerts.changeTargets(by, (targets) => {
    vault.requireCurrent([target.sealed])
    if (targets.length >= MAX_TARGETS) throw invalid('url', `There can be at most ${MAX_TARGETS} targets.`)
    if (targets.some((one) => one.name === target.name))
      throw new ServiceError({ kind: 'alert_exists', target: target.name }, `A target named '${target.name}' exists.`)
    const detail = { name: target.name, ...toDifference({}, toFields(target)) }
    return { value: { target, secret }, change: { action: 'alerts.add', subject: id, detail, write: { add: target } } }
  })
}

/** By ID, at least six digits of it, or name. Drops pending deliveries. Throws `alert_not_found`. */
export const removeTarget = (alerts: AlertStore, which: string, by: Actor): Promise<StoredTarget> =>
  alerts.changeTargets(by, (targets) => {
    const target = findTarget(targets, which)
    const detail = { name: target.name, ...toDifference(toFields(target), {}) }
    return {
      value: target,
      change: { action: 'alerts.remove', subject: target.id, detail, write: { remove: target.id } },
    }
  })

export function findTarget(targets: readonly StoredTarget[], which: string): StoredTarget {
  const found = targets.find(({ id }) => id === which) ?? targets.find((target) => isNamed(target, which))
  if (found) return found
  // Only the origin is shown, since it may be a secret URL.
  const target = which.includes('://') ? (URL.parse(which)?.origin ?? 'URL') : which.slice(0, 64)
  throw new ServiceError({ kind: 'alert_not_found', target }, `There is no alert target '${target}'.`)
}

/** null if it can't be decrypted. */
export async function openTarget(vault: Pick<Vault, 'openFor'>, target: StoredTarget): Promise<TargetSecrets | null> {
  const opened = await vault.openFor({ alert: target.id }, target.sealed).catch(() => null)
  return opened === null ? null : (parseJson(opened) as TargetSecrets)
}

const SLACK = 'hooks.slack.com'

const invalid = (field: string, message: string) => new ServiceError({ kind: 'invalid', field }, message)

function requireUrl(typed: string): URL {
  const url = typed.length > MAX_URL ? null : URL.parse(typed)
  if (url === null || !/^https?:$/.test(url.protocol) || url.hostname === '')
    throw invalid('url', `The URL must begin with https:// or http:// and have at most ${MAX_URL} characters.`)
  if (url.username !== '' || url.password !== '')
    throw invalid('url', 'The URL must not contain a user name or password.')
  url.hash = ''
  return url
}

/** As for upstreams: no link-local or metadata addresses; unencrypted only to this machine and private networks. */
async function requireReceiver(url: URL, lookUp: LookUp | null): Promise<void> {
  if (lookUp === null) return
  const found = await lookUp(hostOf(url.href))
  const problem = explainAddress(url.href, true, found)
  if (problem !== null) throw invalid('url', `Invalid URL: ${problem}`)
  const isNear = explainAddress(url.href, false, found) !== null
  if (url.protocol === 'http:' && !isNear)
    throw invalid('url', 'The URL must begin with https://, since it would cross public networks unencrypted.')
}

/** In the format of Standard Webhooks: 24 to 64 random bytes. */
const mintSecret = () => `whsec_${Buffer.from(crypto.getRandomValues(new Uint8Array(SECRET_BYTES))).toString('base64')}`

const toFields = ({ format, origin, topics }: StoredTarget) => ({ format, origin, topics })

/**
 * Applies and validates changes of keys and teams. Also ceilings: values set by someone else on a member's key, which
 * the member may lower but not lift.
 */

import { type Fields, toDefined } from '../domain/changes.ts'
import { keysOf } from '../domain/json.ts'
import { type Budget, type Limits, mapLimits, NO_LIMITS } from '../domain/limits.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { Access } from '../domain/snapshot.ts'
import type { Ceilings, StoredKey, StoredTeam } from '../store/config-store.ts'
import {
  type Body,
  columnOf,
  type FieldsOf,
  KEY_FIELDS,
  type KeyChanges,
  type SharedChanges,
  TEAM_FIELDS,
  type TeamChanges,
  toRangeForms,
} from './definition.ts'
import { findTeam } from './find.ts'

interface Shared extends Access {
  name: string
  limits: Limits
  budget: Budget | null
  metadata: Record<string, string>
}

const NEW: Omit<Shared, 'name'> = { scope: 'all', models: [], limits: NO_LIMITS, budget: null, metadata: {} }

export const NEW_KEY: Omit<StoredKey, 'id' | 'name' | 'createdMs' | 'secrets'> = {
  ...NEW,
  ...{ allowedIps: [], ceilings: {}, teamId: null, ownerId: null, hidden: false, expiresMs: null, revokedMs: null },
}

export const NEW_TEAM: Omit<StoredTeam, 'id' | 'name' | 'createdMs'> = {
  ...NEW,
  maxKeys: TEAM_FIELDS.maxKeys.byDefault ?? null,
}

/** Throws `team_not_found`, `team_ambiguous`, and `invalid` for the first invalid field. */
export function withKeyChanges(key: StoredKey, changes: KeyChanges, teams: readonly StoredTeam[]): StoredKey {
  const { team, allowedIps, expiresMs = key.expiresMs } = changes
  const own = {
    allowedIps: allowedIps === undefined ? key.allowedIps : toRangeForms(allowedIps),
    expiresMs,
  } satisfies Record<Exclude<keyof KeyChanges, keyof SharedChanges | 'team'>, unknown>
  const changed = { ...key, ...withShared(key, changes), ...own }
  requireValid(KEY_FIELDS, { ...changes, metadata: changed.metadata })
  return { ...changed, teamId: team === undefined ? key.teamId : team === null ? null : findTeam(teams, team).id }
}

/** Throws `invalid`. */
export function withTeamChanges(team: StoredTeam, changes: TeamChanges): StoredTeam {
  const { maxKeys = team.maxKeys } = changes
  const own = { maxKeys } satisfies Record<Exclude<keyof TeamChanges, keyof SharedChanges>, unknown>
  const changed = { ...team, ...withShared(team, changes), ...own }
  requireValid(TEAM_FIELDS, { ...changes, metadata: changed.metadata })
  return changed
}

function withShared(before: Shared, changes: SharedChanges): Shared {
  const { name, scope, budget } = { ...before, ...changes }
  const { models, metadata } = changes
  return {
    ...{ name, scope, budget },
    limits: mapLimits((limit) => changes[limit] ?? (changes[limit] === null ? null : before.limits[limit])),
    models: models === undefined ? before.models : [...new Set(models)],
    metadata: metadata === null ? {} : merge(before.metadata, metadata ?? {}),
  }
}

const merge = (before: Shared['metadata'], said: Record<string, string | null>) => {
  const merged = Object.entries({ ...before, ...said })
  return Object.fromEntries(merged.filter((pair): pair is [string, string] => pair[1] !== null))
}

function requireValid<Changes extends object>(fields: FieldsOf<Changes>, changes: Changes): void {
  for (const name of keysOf(fields)) {
    const value = changes[name]
    if (value === undefined || value === null) continue
    const problem = fields[name].problemOf?.(value)
    if (problem) throw invalid(columnOf(name), `Invalid ${columnOf(name)}: ${problem}.`)
  }
}

const invalid = (field: string, message: string) => new ServiceError({ kind: 'invalid', field }, message)

const toSharedFields = ({ name, scope, models, limits, budget, metadata }: Shared) =>
  ({
    ...{ name, scope, models, ...limits },
    budget_nano_usd: budget?.nanoUsd ?? null,
    budget_period: budget?.period ?? null,
    metadata,
  }) satisfies Record<keyof Body<SharedChanges>, unknown>

export const toKeyFields = (key: StoredKey) =>
  ({
    ...toSharedFields(key),
    allowed_ips: key.allowedIps,
    team_id: key.teamId,
    expires_ms: key.expiresMs,
    ceilings: key.ceilings,
  }) satisfies Fields & Record<Exclude<keyof Body<KeyChanges>, 'team'>, unknown>

/** What a key's revision covers: also its secrets, so that no one rotates away a secret they didn't know of. */
export const toKeyState = (key: StoredKey) => ({
  ...toKeyFields(key),
  secrets: key.secrets.map(({ createdMs }) => createdMs),
})

export const toTeamFields = (team: StoredTeam) =>
  ({ ...toSharedFields(team), max_keys: team.maxKeys }) satisfies Fields & Record<keyof Body<TeamChanges>, unknown>

/** From column names. Throws `invalid` for half a budget. */
export function toChanges(columns: Body<KeyChanges & TeamChanges>): KeyChanges & TeamChanges {
  const { budget_nano_usd: nanoUsd, budget_period: period, allowed_ips, expires_ms, max_keys, ...same } = columns
  const budget = nanoUsd === undefined && period === undefined ? undefined : toBudget(nanoUsd, period)
  return toDefined({ ...same, budget, allowedIps: allowed_ips, expiresMs: expires_ms, maxKeys: max_keys })
}

/** To column names, as in a request body. */
export function toBody({ budget, allowedIps, expiresMs, maxKeys, ...same }: KeyChanges & TeamChanges) {
  const amount = budget === undefined ? {} : { budget_nano_usd: budget?.nanoUsd ?? null }
  const period = budget ? { budget_period: budget.period } : {}
  return {
    ...{ ...same, ...amount, ...period },
    ...toDefined({ allowed_ips: allowedIps, expires_ms: expiresMs, max_keys: maxKeys }),
  } satisfies Body<KeyChanges & TeamChanges>
}

/** Needs both, or a null amount for no budget. */
function toBudget(nanoUsd: number | null | undefined, period: Budget['period'] | null | undefined): Budget | null {
  if (nanoUsd === null) return null
  if (nanoUsd !== undefined && period) return { nanoUsd, period }
  throw invalid('budget', 'A budget needs both budget_nano_usd and budget_period.')
}

const BOUNDS = keysOf(KEY_FIELDS).filter((name) => KEY_FIELDS[name].isWithin)

type Bounds = { [Name in keyof KeyChanges]?: NonNullable<KeyChanges[Name]> }

/** Whether a value restricts a key. */
const isBound = (value: unknown) =>
  value !== undefined && value !== null && value !== 'all' && !(Array.isArray(value) && value.length === 0)

function toBounds(of: KeyChanges): Bounds {
  const bounds: Bounds = {}
  for (const name of BOUNDS) if (isBound(of[name])) Object.assign(bounds, { [name]: of[name] })
  return bounds
}

const boundsOf = (key: StoredKey) => toBounds({ ...key, ...key.limits })

const toCeiling = ({ budget, allowedIps, expiresMs, scope, ...same }: Bounds): Ceilings =>
  toDefined({
    ...same,
    ...{ allowed_ips: allowedIps, expires_ms: expiresMs, scope: scope === 'local' ? scope : undefined },
    ...{ budget_nano_usd: budget?.nanoUsd, budget_period: budget?.period },
  })

/**
 * The new ceilings after someone other than its owner changed a key: the fields they set become ceilings or lose them.
 */
export function toCeilings(key: StoredKey, changes: KeyChanges): Ceilings {
  const [before, now] = [toBounds(toChanges(key.ceilings)), boundsOf(key)]
  const ceilings: Bounds = {}
  for (const name of BOUNDS) {
    const { [name]: value } = changes[name] === undefined ? before : now
    if (value !== undefined) Object.assign(ceilings, { [name]: value })
  }
  return toCeiling(ceilings)
}

/** Throws `above_ceiling` if a member's change would lift a ceiling. */
export function requireWithin(before: StoredKey, after: StoredKey): void {
  const [ceilings, was, is] = [toBounds(toChanges(before.ceilings)), boundsOf(before), boundsOf(after)]
  for (const name of BOUNDS) {
    // A value above its ceiling already, set by an owner, may stay.
    if (Bun.deepEquals(was[name], is[name]) || isWithin(KEY_FIELDS, name, is, ceilings)) continue
    const message = `An administrator has set ${columnOf(name)} of this key to ${toText(KEY_FIELDS, name, ceilings)}. You can lower it; to raise or remove it, ask an administrator.`
    const { budget } = ceilings
    const ceiling = name === 'budget' && budget ? toCeiling({ budget }) : ceilings[name]
    throw new ServiceError({ kind: 'above_ceiling', field: columnOf(name), ceiling }, message)
  }
}

function isWithin<Changes>(fields: FieldsOf<Changes>, name: keyof Changes, is: Changes, most: Changes): boolean {
  const [value, ceiling] = [is[name], most[name]]
  if (ceiling === undefined || ceiling === null) return true
  return value !== undefined && value !== null && fields[name].isWithin?.(value, ceiling) !== false
}

function toText<Changes>(fields: FieldsOf<Changes>, name: keyof Changes, of: Changes): string | null {
  const value = of[name]
  return value === undefined || value === null ? null : fields[name].toText(value)
}

export const toCeilingTexts = (ceilings: Ceilings): [column: string, text: string][] => {
  const bounds = toBounds(toChanges(ceilings))
  return BOUNDS.flatMap((name) => {
    const text = toText(KEY_FIELDS, name, bounds)
    return text === null ? [] : [[columnOf(name), text]]
  })
}

/**
 * The settings of a running server, as whoever runs it reads and changes them: rows of the settings table, which its flags and its
 * environment go before. Called by the admin API. A server takes them in when it starts: until then it goes on as it is.
 */
import { findSettingProblem, type SettingText, WITHOUT_ROW } from '../config.ts'
import { requireRevision, toDifference, toRevision } from '../domain/changes.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { Actor, ConfigStore, Settings } from '../store/config-store.ts'

/** A setting in force, and what its row says now. */
export interface Setting extends SettingText {
  /** The row; null where there is none. */
  stored: string | null
  /** Whether the next start brings another value than the one in force. */
  isPending: boolean
}

/** @param inForce what the server has started with. */
export async function listSettings(
  store: Pick<ConfigStore, 'readSettings'>,
  inForce: readonly SettingText[],
): Promise<Setting[]> {
  const rows = await store.readSettings()
  return inForce.map((setting) => toSetting(setting, rows))
}

/** Of what the rows of these settings say. */
export const toSettingsRevision = (settings: readonly Setting[]) =>
  toRevision(Object.fromEntries(settings.map(({ name, stored }) => [name, stored])))

/** What their rows say, by name. */
const toStored = (inForce: readonly SettingText[], rows: Settings) =>
  Object.fromEntries(inForce.map(({ name }) => [name, rows[name] ?? null]))

/**
 * Writes the rows that are given, and takes away those that are given as null. Throws `invalid` for one that there is no setting of, or
 * whose value a server would not start with, and `revision_conflict`; then nothing is written.
 */
export async function editSettings(
  store: Pick<ConfigStore, 'changeSettings'>,
  inForce: readonly SettingText[],
  changes: Readonly<Record<string, string | null>>,
  by: Actor,
): Promise<Setting[]> {
  for (const [name, text] of Object.entries(changes)) requireValid(inForce, name, text)
  return store.changeSettings(by, (rows) => {
    const state = toStored(inForce, rows)
    requireRevision(by, 'The configuration of the server', state, state)
    const difference = toDifference(toFields(rows, changes), changes)
    const after = Object.fromEntries(Object.entries({ ...rows, ...changes }).filter(isThere))
    const change = { action: 'settings.edit' as const, subject: 'settings', detail: { ...difference }, write: changes }
    return {
      value: inForce.map((setting) => toSetting(setting, after)),
      change: difference === null ? null : change,
    }
  })
}

function requireValid(inForce: readonly SettingText[], name: string, text: string | null): void {
  const invalid = (message: string) => new ServiceError({ kind: 'invalid', field: name }, message)
  if (WITHOUT_ROW.includes(name))
    throw invalid(`Whoever starts the server says how people sign in, with --${name} or in its environment.`)
  if (!inForce.some((setting) => setting.name === name))
    throw invalid(`There is no setting '${name.slice(0, 64)}': a name is that of a flag of \`tollgate serve\`.`)
  const problem = text === null ? null : findSettingProblem(name, text)
  if (problem !== null) throw invalid(`${problem.charAt(0).toUpperCase()}${problem.slice(1)}`)
}

const toFields = (rows: Settings, changes: object) =>
  Object.fromEntries(Object.keys(changes).map((name) => [name, rows[name] ?? null]))

const isThere = (pair: [string, string | null]): pair is [string, string] => pair[1] !== null

function toSetting(setting: SettingText, rows: Settings): Setting {
  const { name, text, place, byDefault } = setting
  const stored = rows[name] ?? null
  const isPending = (place === 'setting' || place === 'default') && (stored ?? byDefault) !== text
  return { ...setting, stored, isPending }
}

/** The settings of the server: `/admin/api/settings`. A change writes rows, which take effect after a restart. */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { findSettingProblem, type SettingText, WITHOUT_ROW } from '../config.ts'
import { Settings, toSettingDocument } from '../documents/server.ts'
import { requireRevision, toDifference, toRevision } from '../domain/changes.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { Actor, ConfigStore, Settings as Rows } from '../store/config-store.ts'
import { access } from './access.ts'
import { actors } from './actor.ts'
import type { AdminDeps } from './deps.ts'

/** By name: its text, or null for its default. */
const SettingsPatch = Type.Record(
  Type.String({ maxLength: 100 }),
  Type.Union([Type.String({ maxLength: 10_000 }), Type.Null()]),
)
type Changes = Readonly<Static<typeof SettingsPatch>>

export function settingsController({ store, serving, ...deps }: AdminDeps) {
  const by = actors(deps)
  const { settings } = serving

  return new Elysia({ name: 'settings' })
    .use(access())
    .get('/settings', async () => toDocument(settings, await store.readSettings()), {
      route: {
        least: 'viewer',
        summary: 'Lists the settings of the server, with where each is from',
        answer: Settings,
      },
    })
    .patch(
      '/settings',
      async ({ request, principal, body }) =>
        toDocument(settings, await editSettings(store, settings, body, by(principal, request))),
      {
        route: {
          least: 'owner',
          edits: true,
          summary: 'Writes settings, which hold from the next start on',
          description: 'By name: the text of its value, or null for its default. Flags and the environment go before.',
          answer: Settings,
        },
        body: SettingsPatch,
      },
    )
}

const toDocument = (settings: readonly SettingText[], rows: Rows): Static<typeof Settings> => ({
  revision: toRevision(toStored(settings, rows)),
  settings: settings.map((setting) => toSettingDocument(setting, rows[setting.name] ?? null)),
})

/** What the rows of these settings say, by name. */
const toStored = (settings: readonly SettingText[], rows: Rows) =>
  Object.fromEntries(settings.map(({ name }) => [name, rows[name] ?? null]))

/**
 * Writes the rows that are given, takes away those that are given as null, and returns all rows. Throws `invalid` for one that there is no
 * setting of, or whose value a server would not start with, and `revision_conflict`; then nothing is written.
 *
 * @param settings what the server has started with.
 */
async function editSettings(
  store: Pick<ConfigStore, 'changeSettings'>,
  settings: readonly SettingText[],
  changes: Changes,
  by: Actor,
): Promise<Rows> {
  for (const [name, text] of Object.entries(changes)) requireValid(settings, name, text)
  return store.changeSettings(by, (rows) => {
    const state = toStored(settings, rows)
    requireRevision(by, 'The configuration of the server', state, state)
    const before = Object.fromEntries(Object.keys(changes).map((name) => [name, rows[name] ?? null]))
    const difference = toDifference(before, changes)
    const change = { action: 'settings.edit' as const, subject: 'settings', detail: { ...difference }, write: changes }
    const after = Object.fromEntries(Object.entries({ ...rows, ...changes }).filter(isThere))
    return { value: after, change: difference === null ? null : change }
  })
}

function requireValid(settings: readonly SettingText[], name: string, text: string | null): void {
  const invalid = (message: string) => new ServiceError({ kind: 'invalid', field: name }, message)
  if (WITHOUT_ROW.includes(name))
    throw invalid(`Whoever starts the server says how people sign in, with --${name} or in its environment.`)
  if (!settings.some((setting) => setting.name === name))
    throw invalid(`There is no setting '${name.slice(0, 64)}': a name is that of a flag of \`tollgate serve\`.`)
  const problem = text === null ? null : findSettingProblem(name, text)
  if (problem !== null) throw invalid(`${problem.charAt(0).toUpperCase()}${problem.slice(1)}`)
}

const isThere = (pair: [string, string | null]): pair is [string, string] => pair[1] !== null

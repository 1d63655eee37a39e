/** The settings of the server: `/admin/api/settings`. A change writes rows, which hold from the next start on. */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { findSettingProblem, type SettingText, WITHOUT_ROW } from '../config.ts'
import { checkKeys } from '../documents/checks.ts'
import { TextOrNull } from '../documents/fields.ts'
import {
  Backup,
  Settings,
  Status,
  type StatusDocument,
  toBackupDocument,
  toSettingDocument,
} from '../documents/server.ts'
import { requireRevision, toDifference, toRevision } from '../domain/changes.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { Actor, ConfigStore, Settings as Rows } from '../store/config-store.ts'
import { access } from './access.ts'
import { actors } from './changes.ts'
import type { AdminDeps } from './deps.ts'

/** By name: its text, or null for its default. */
const SettingsPatch = Type.Record(
  Type.String({ maxLength: 100 }),
  Type.Union([Type.String({ maxLength: 10_000 }), Type.Null()]),
)

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

export const statusController = ({ store, reports, serving, now }: AdminDeps) =>
  new Elysia({ name: 'status' }).use(access()).get(
    '/status',
    async ({ asker }): Promise<StatusDocument> => {
      const [status, rows, key, team] = await Promise.all([
        serving.status(),
        store.readKeys(),
        reports.spendStatuses(asker, 'key'),
        reports.spendStatuses(asker, 'team'),
      ])
      return { ...status, checks: [...status.checks, ...checkKeys(rows, (kind) => ({ key, team })[kind], now())] }
    },
    {
      route: {
        least: 'viewer',
        summary: 'Tells how the server is doing, and which keys and budgets are near their end',
        answer: Status,
      },
    },
  )

export function backupsController({ backups, ...deps }: AdminDeps) {
  const by = actors(deps)

  return new Elysia({ name: 'backups' })
    .use(access())
    .get('/backups', async () => ({ backups: (await backups.list()).map(toBackupDocument), ...backups.state() }), {
      route: {
        least: 'owner',
        summary: 'Lists backups, and what became of the last that was begun',
        answer: Type.Object({ backups: Type.Array(Backup), making: TextOrNull, failed: TextOrNull }),
      },
    })
    .post('/backups', async ({ principal, status }) => status(202, { making: await backups.begin(by(principal)) }), {
      route: {
        least: 'owner',
        summary: 'Begins to make a backup: the list tells when it is there',
        answer: null,
        operation: {
          responses: {
            202: {
              description: 'It is being made.',
              content: { 'application/json': { schema: Type.Object({ making: Type.String() }) } },
            },
          },
        },
        errors: ['backup_under_way'],
      },
    })
    .get(
      '/backups/:name',
      async ({ principal, params: { name } }) => {
        const found = await backups.take(name, by(principal))
        return new Response(Bun.file(found.path), {
          headers: {
            'content-type': 'application/vnd.sqlite3',
            'content-length': String(found.bytes),
            'content-disposition': `attachment; filename="${found.name.replaceAll(/[^\w.-]/g, '_')}"`,
          },
        })
      },
      {
        route: {
          least: 'owner',
          summary: 'Downloads a backup: everything but the secret of the data folder',
          answer: null,
          operation: { responses: { 200: { description: 'The file.', content: { 'application/vnd.sqlite3': {} } } } },
          errors: ['backup_not_found'],
        },
      },
    )
}

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
  changes: Readonly<Static<typeof SettingsPatch>>,
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

/** `/admin/api/settings` (effective after a restart), `/status`, and `/backups`. */

import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { findSettingProblem, type SettingText, WITHOUT_ROW } from '../config.ts'
import { type Check, checkKeys, warning } from '../documents/checks.ts'
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
import { capitalize } from '../domain/text.ts'
import type { Actor, ConfigStore, Settings as Rows } from '../store/config-store.ts'
import { access } from './access.ts'
import { actors } from './changes.ts'
import type { AdminDeps } from './deps.ts'

/** Value by name; null resets to the default. */
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
        summary: 'List server settings with their sources',
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
          summary: 'Edit server settings. Takes effect after a restart',
          description:
            'An object of values by name; null resets to the default. Flags and environment variables override stored values.',
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

/** The other checks don't need the cluster. */
function toUnread(error: unknown): Check {
  if (error instanceof ServiceError && error.failure.kind === 'cluster_unreachable')
    return warning('keys', error.message)
  throw error
}

export const statusController = ({ store, reports, serving, now }: AdminDeps) =>
  new Elysia({ name: 'status' }).use(access()).get(
    '/status',
    async ({ asker }): Promise<StatusDocument> => {
      const spend = Promise.all([reports.spendStatuses(asker, 'key'), reports.spendStatuses(asker, 'team')])
      const [status, rows, known] = await Promise.all([serving.status(), store.readKeys(), spend.catch(toUnread)])
      if ('message' in known) return { ...status, checks: [...status.checks, known] }
      const [key, team] = known
      return { ...status, checks: [...status.checks, ...checkKeys(rows, (kind) => ({ key, team })[kind], now())] }
    },
    {
      route: {
        least: 'viewer',
        summary: 'Get server status, and keys and budgets that need attention',
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
        summary: 'List backups and the state of the latest one',
        answer: Type.Object({ backups: Type.Array(Backup), making: TextOrNull, failed: TextOrNull }),
      },
    })
    .post('/backups', async ({ principal, status }) => status(202, { making: await backups.begin(by(principal)) }), {
      route: {
        least: 'owner',
        summary: 'Start a backup. It appears in the list when complete',
        answer: null,
        operation: {
          responses: {
            202: {
              description: 'Backup started.',
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
          summary: 'Download a backup. It does not contain the encryption key',
          answer: null,
          operation: {
            responses: { 200: { description: 'Backup file.', content: { 'application/vnd.sqlite3': {} } } },
          },
          errors: ['backup_not_found'],
        },
      },
    )
}

/** Stored values by name. */
const toStored = (settings: readonly SettingText[], rows: Rows) =>
  Object.fromEntries(settings.map(({ name }) => [name, rows[name] ?? null]))

/**
 * Stores values, removes those given as null, and returns all. Throws `invalid` for unknown settings and invalid values, and
 * `revision_conflict`; then nothing is written.
 *
 * @param settings of the running server
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
    throw invalid(`This setting can only be set at the start of the server, with --${name} or an environment variable.`)
  if (!settings.some((setting) => setting.name === name))
    throw invalid(`Unknown setting '${name.slice(0, 64)}'. Settings are named like the flags of \`tollgate serve\`.`)
  const problem = text === null ? null : findSettingProblem(name, text)
  if (problem !== null) throw invalid(capitalize(problem))
}

const isThere = (pair: [string, string | null]): pair is [string, string] => pair[1] !== null

/** The settings of the server: `/admin/api/settings`. A change writes rows, which hold from the next start on. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
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
import { editSettings, listSettings, type Setting, toSettingsRevision } from '../settings/service.ts'
import { access } from './access.ts'
import { actors } from './actor.ts'
import type { AdminDeps } from './deps.ts'

/** By name: its text, or null for its default. */
const SettingsPatch = Type.Record(
  Type.String({ maxLength: 100 }),
  Type.Union([Type.String({ maxLength: 10_000 }), Type.Null()]),
)

export function settingsController({ store, serving, ...deps }: AdminDeps) {
  const by = actors(deps)

  return new Elysia({ name: 'settings' })
    .use(access())
    .get('/settings', async () => toDocument(await listSettings(store, serving.settings)), {
      route: {
        least: 'viewer',
        summary: 'Lists the settings of the server, with where each is from',
        answer: Settings,
      },
    })
    .patch(
      '/settings',
      async ({ request, principal, body }) =>
        toDocument(await editSettings(store, serving.settings, body, by(principal, request))),
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

const toDocument = (settings: readonly Setting[]) => ({
  revision: toSettingsRevision(settings),
  settings: settings.map(toSettingDocument),
})

export const statusController = ({ store, reports, serving, now }: AdminDeps) =>
  new Elysia({ name: 'status' }).use(access()).get(
    '/status',
    async ({ asker }): Promise<StatusDocument> => {
      const [status, rows, key, team] = await Promise.all([
        serving.status(),
        store.readKeys(),
        reports.standings(asker, 'key'),
        reports.standings(asker, 'team'),
      ])
      return { ...status, checks: checkKeys(rows, (kind) => ({ key, team })[kind], now()) }
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

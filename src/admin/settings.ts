/** The settings of the server: `/admin/api/settings`. A change writes rows, which hold from the next start on. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { Settings, toSettingDocument } from '../documents/server.ts'
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

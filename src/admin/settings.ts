/** The settings of the server: `/admin/api/settings`. A change writes rows, which hold from the next start on. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { toSettingDocument } from '../documents/setting.ts'
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
    .get('/settings', async () => toDocument(await listSettings(store, serving.settings)), { least: 'viewer' })
    .patch(
      '/settings',
      async ({ request, principal, body }) =>
        toDocument(await editSettings(store, serving.settings, body, by(principal, request))),
      { least: 'owner', body: SettingsPatch },
    )
}

const toDocument = (settings: readonly Setting[]) => ({
  revision: toSettingsRevision(settings),
  settings: settings.map(toSettingDocument),
})

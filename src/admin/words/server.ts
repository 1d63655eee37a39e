/** The server itself: the playground, its settings, its state, backups, and this description. */
import { Type } from '@sinclair/typebox'
import { TextOrNull } from '../../documents/schemas/describes.ts'
import { Backup, Settings, Status } from '../../documents/schemas/server.ts'
import { chatOperation } from '../../http/openapi/chat.ts'
import type { Words } from './route-words.ts'

export const SERVER = {
  'POST /playground': {
    summary: 'Has a model answer, as `/v1/chat/completions` does',
    description:
      'By a key of their own that has no secret: metered, limited and on record like any other. Viewers have none. Of a request that was let in, errors are those of `/v1`, in their shape.',
    answer: null,
    operation: chatOperation,
    ownErrors: { no_session: 403 },
  },
  'GET /settings': { summary: 'Lists the settings of the server, with where each is from', answer: Settings },
  'PATCH /settings': {
    edits: true,
    summary: 'Writes settings, which hold from the next start on',
    description: 'By name: the text of its value, or null for its default. Flags and the environment go before.',
    answer: Settings,
  },
  'GET /status': {
    summary: 'Tells how the server is doing, and which keys and budgets are near their end',
    answer: Status,
  },
  'GET /backups': {
    summary: 'Lists backups, and what became of the last that was begun',
    answer: Type.Object({ backups: Type.Array(Backup), making: TextOrNull, failed: TextOrNull }),
  },
  'POST /backups': {
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
  'GET /backups/:name': {
    summary: 'Downloads a backup: everything but the secret of the data folder',
    answer: null,
    operation: { responses: { 200: { description: 'The file.', content: { 'application/vnd.sqlite3': {} } } } },
    errors: ['backup_not_found'],
  },
  'GET /openapi.json': { summary: 'This description', answer: Type.Object({}) },
} satisfies Words

/** Which files are text, that a model reads as it reads a message. Pure. */
import type { Data } from './media.ts'

const TEXT_TYPE = /^text\/|^application\/(?:.+\+)?(?:json|xml|yaml|x-yaml|javascript|toml|sql|x-ndjson|jsonl)$/
const TEXT_NAME =
  /\.(?:txt|text|md|markdown|rst|tex|csv|tsv|json|jsonl|ndjson|ya?ml|toml|xml|html?|css|log|ini|sql|sh|[cm]?[jt]sx?|py|rb|go|rs|java|kt|swift|c|h|cc|cpp|hpp|cs|php|vue)$/i

/** By its media type, or by its name where it has none that says anything. */
export const isText = ({ mediaType }: Data, name: string | null | undefined) =>
  TEXT_TYPE.test(mediaType) ||
  ((mediaType === '' || mediaType === 'application/octet-stream') && TEXT_NAME.test(name ?? ''))

/**
 * The `format`s that strict schemas may name in OpenAI's API, as simple patterns. They catch what a client's own
 * parser would stumble over; a format that is not here is not checked.
 */

const DATE = '\\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\\d|3[01])'
const TIME = '(?:[01]\\d|2[0-3]):[0-5]\\d:(?:[0-5]\\d|60)(?:\\.\\d+)?'
const ZONE = '(?:[zZ]|[+-](?:[01]\\d|2[0-3]):?[0-5]\\d)'
const LABEL = '[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?'
const BYTE = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)'

const exactly = (pattern: string) => new RegExp(`^${pattern}$`)

export const FORMATS: Record<string, RegExp | ((text: string) => boolean)> = {
  date: exactly(DATE),
  time: exactly(`${TIME}${ZONE}?`),
  'date-time': exactly(`${DATE}[tT ]${TIME}${ZONE}`),
  duration: exactly(
    'P(?!$)(?:\\d+Y)?(?:\\d+M)?(?:\\d+W)?(?:\\d+D)?(?:T(?=\\d)(?:\\d+H)?(?:\\d+M)?(?:\\d+(?:\\.\\d+)?S)?)?',
  ),
  email: exactly(`[^\\s@<>"]{1,64}@${LABEL}(?:\\.${LABEL})*`),
  hostname: (text) => text.length <= 253 && HOSTNAME.test(text),
  ipv4: exactly(`${BYTE}(?:\\.${BYTE}){3}`),
  ipv6: (text) => text.includes(':') && URL.canParse(`http://[${text}]/`),
  uuid: exactly('[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}'),
}

const HOSTNAME = exactly(`${LABEL}(?:\\.${LABEL})*`)

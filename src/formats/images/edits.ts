/** OpenAI's `POST /v1/images/edits` as a client format: a form with files, or JSON with URLs. */
import { type Decision, GatewayError } from '../../domain/error.ts'
import { isMiswritten, toPlainName } from '../../domain/fields.ts'
import type { EditedImages, ImagesRequest, InputImage } from '../../domain/images.ts'
import { asList, asObject, type JsonObject } from '../../domain/json.ts'
import { type Form, isForm, onlyPart, type Part, readForm, textOf } from '../../domain/multipart.ts'
import type { EndpointTask } from '../../domain/task.ts'
import { tokensOfImage } from '../../tokens/media.ts'
import { checkModel, createBodyCheck, invalid, notAnObject, toSchemaRefusal } from '../checked-body.ts'
import { editsChecker } from '../checker.macro.ts' with { type: 'macro' }
import type { Format } from '../format.ts'
import { checkImagesBody, imageAnswers, OWN_FIELDS, toImagesTask } from './images.ts'
import { type EditsBody, EditsSchema, MAX_INPUT_IMAGES } from './schema.ts'

/** Sixteen large photos. They count against the memory of requests in flight. */
const MAX_FORM_BYTES = 256 * 1024 * 1024

export const edits = {
  ...imageAnswers,
  toTask(given) {
    const stored = findStored(asObject(given) ?? {})
    if (stored) return stored
    const checked = checkBody(given)
    if (checked instanceof GatewayError) return checked
    const { images, mask } = checked
    const inputs = images.map(toInput)
    return toImagesTask(checked, asObject(given) ?? {}, toEdited(inputs, mask ? toInput(mask) : null, null), OWN)
  },
  form: {
    accepts: isForm,
    maxBytes: MAX_FORM_BYTES,
    toTask: (bytes, headers, inTurn) => inTurn(() => fromForm(bytes, headers['content-type'] ?? '')),
  },
} satisfies Format

const OWN = [...OWN_FIELDS, 'image', 'images', 'mask']

const checkBody = createBodyCheck<EditsBody>(editsChecker(), (body) => {
  const given = asObject(body)
  if (given === null) return notAnObject('{"model": …, "prompt": …, "images": [{"image_url": …}]}')
  return checkModel(given) ?? toSchemaRefusal(EditsSchema, given, 'Invalid image request.')
})

/** Refuses files stored at the provider, because all keys share them. */
function findStored({ images, mask }: JsonObject): GatewayError | null {
  for (const [at, image] of [...asList(images), mask].entries()) {
    if (asObject(image)?.file_id == null) continue
    const param = image === mask ? 'mask.file_id' : `images[${at}].file_id`
    const why = 'Files stored at the provider are not available. Send the image as `image_url`, or as a form.'
    return invalid(`Unsupported parameter: '${param}'. ${why}`, param, 'unsupported_parameter')
  }
  return null
}

const toInput = ({ image_url: url }: { image_url: string }): InputImage => ({ url })

function toEdited(images: readonly InputImage[], mask: InputImage | null, form: Form | null): EditedImages {
  const all = mask ? [...images, mask] : images
  return { images, mask, form, tokens: all.reduce((sum, image) => sum + tokensOfInput(image), 0) }
}

/** Enough of a file to find the image's dimensions. */
const HEAD_BYTES = 96 * 1024

function tokensOfInput(image: InputImage): number {
  if ('url' in image) return tokensOfImage(image)
  const head = Buffer.from(image.bytes.subarray(0, HEAD_BYTES)).toString('base64')
  return tokensOfImage({ url: `data:;base64,${head}` })
}

const IMAGE_NAME = /^image(?:\[\d{0,2}\])?$/
const MASK_NAME = 'mask'

/** Fields that may occur only once, because upstreams differ in which of several values they use. */
const SINGLE = [...OWN_FIELDS, 'user']
const KNOWN = new Set([...OWN, 'user'])

function fromForm(bytes: Uint8Array, contentType: string): Decision<EndpointTask<ImagesRequest>> {
  const form = readForm(bytes, contentType)
  if (form instanceof GatewayError) return form
  const fields = readFields(form)
  if (fields instanceof GatewayError) return fields
  const edited = readImages(form)
  if (edited instanceof GatewayError) return edited
  const checked = checkImagesBody(fields)
  return checked instanceof GatewayError ? checked : toImagesTask(checked, fields, edited, OWN)
}

function readImages(form: Form): Decision<EditedImages> {
  const images: InputImage[] = []
  for (const part of form.parts) {
    if (!IMAGE_NAME.test(part.name)) continue
    const image = toFile(form, part)
    if (image instanceof GatewayError) return image
    images.push(image)
  }
  if (images.length === 0) return invalid("Missing required parameter: 'image'.", 'image', 'missing_required_parameter')
  if (images.length > MAX_INPUT_IMAGES)
    return invalid(
      `Invalid 'image': ${images.length} images, but at most ${MAX_INPUT_IMAGES} are supported.`,
      'image',
      'array_above_max_length',
    )
  const part = onlyPart(form, MASK_NAME)
  if (part instanceof GatewayError) return part
  const mask = part && toFile(form, part)
  return mask instanceof GatewayError ? mask : toEdited(images, mask, form)
}

function toFile(form: Form, { name, filename, type, start, end }: Part): Decision<InputImage> {
  if (filename === null)
    return invalid(
      `Invalid '${name}': expected a file with a name, but got a field. Add a filename, such as \`image.png\`.`,
      name,
      'invalid_type',
    )
  if (end === start) return invalid(`Invalid '${name}': it is empty.`, name, 'invalid_value')
  return { type: type ?? '', bytes: form.bytes.subarray(start, end) }
}

const NUMBERS: ReadonlySet<string> = new Set(['n', 'partial_images'])
const BOOLEANS: Readonly<Record<string, boolean>> = { true: true, false: false, True: true, False: false }

/** All fields except the files, typed as in JSON. */
function readFields(form: Form): Decision<JsonObject> {
  const fields: JsonObject = {}
  for (const name of SINGLE) {
    const part = onlyPart(form, name)
    if (part instanceof GatewayError) return part
  }
  for (const part of form.parts) {
    const { name, filename } = part
    if (IMAGE_NAME.test(name) || name === MASK_NAME) continue
    const base = name.replace(/\[.*/s, '')
    const isKnown = SINGLE.includes(name)
    // Some upstreams read `model[]` or `Model` as the model.
    if (!isKnown && (isMiswritten(base) || KNOWN.has(base) || KNOWN.has(toPlainName(base))))
      return invalid(`Unknown parameter: '${name.slice(0, 64)}'.`, base.slice(0, 64), 'unknown_parameter')
    if (filename !== null)
      return invalid(
        `Unsupported parameter: '${name.slice(0, 64)}' can't be a file. Only 'image' and 'mask' can.`,
        base.slice(0, 64),
        'unsupported_parameter',
      )
    const text = textOf(form, part)
    fields[base] = isKnown ? toValue(base, text.trim()) : text
  }
  return fields
}

/** An empty field counts as absent. */
function toValue(name: string, text: string): unknown {
  if (text === '') return null
  if (NUMBERS.has(name)) return /^\d{1,9}$/.test(text) ? Number(text) : text
  return name === 'stream' ? (BOOLEANS[text] ?? text) : text
}

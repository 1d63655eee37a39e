/** The types of the parts of a message's content that are described here; others are for the upstream, whatever they hold. */
export const PART_TYPES: ReadonlySet<unknown> = new Set(['text', 'image_url', 'input_audio', 'file', 'refusal'])

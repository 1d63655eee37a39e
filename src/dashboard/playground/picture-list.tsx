/** Pictures of a message, shown small. */
import { IconButton } from '../ui/button.tsx'
import type { Picture } from './thread.ts'

/** @param remove null where they stay. */
export const PictureList = ({
  pictures,
  remove,
}: {
  pictures: readonly Picture[]
  remove: ((at: number) => void) | null
}) =>
  pictures.length === 0 ? null : (
    <ul class="play-pictures">
      {pictures.map(({ name, url }, at) => (
        <li key={at}>
          <img src={url} alt={name} />
          {remove && <IconButton icon="close" label={`Remove ${name}`} onClick={() => remove(at)} />}
        </li>
      ))}
    </ul>
  )

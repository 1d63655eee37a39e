/** Pictures that somebody picks, pastes or drops, as what a request has them as. */
import { checkPicture } from './request.ts'
import type { Picture } from './thread.ts'

/** Those that models take, and why the others are not among them, in a sentence. */
export async function readPictures(files: readonly File[]): Promise<{ pictures: Picture[]; problem: string | null }> {
  const problems = files.map(checkPicture)
  const pictures = await Promise.all(files.filter((_, at) => problems[at] === null).map(readPicture))
  return { pictures, problem: problems.find((problem) => problem !== null) ?? null }
}

const readPicture = (file: File) =>
  new Promise<Picture>((resolve, reject) => {
    const reader = new FileReader()
    reader.onload = () => resolve({ name: file.name, url: String(reader.result) })
    reader.onerror = () => reject(reader.error)
    reader.readAsDataURL(file)
  })

/** Text as descriptions have it: paragraphs, with code between backticks. */

export const Prose = ({ text }: { text: string }) => (
  <>
    {text
      .split('\n\n')
      .filter(Boolean)
      .map((paragraph) => (
        <p key={paragraph}>
          <Inline text={paragraph} />
        </p>
      ))}
  </>
)

export const Inline = ({ text }: { text: string }) => (
  <>{text.split('`').map((part, index) => (index % 2 === 1 ? <code key={part + String(index)}>{part}</code> : part))}</>
)
